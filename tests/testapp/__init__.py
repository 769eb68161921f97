"""Models that count, as a project would write them."""
