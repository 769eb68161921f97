"""A blog: posts that count their views."""
