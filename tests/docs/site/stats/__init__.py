"""``stats`` of the pages: numbers that somebody keeps without this app."""
