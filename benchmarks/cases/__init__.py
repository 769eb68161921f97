"""Tables of what is compared."""
