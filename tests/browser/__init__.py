"""The admin in a real browser, under a strict policy for content."""
