"""``blog`` of the pages."""
