"""``shop`` of the pages."""
