"""Django's own tests, with counter fields in place of integer fields."""
