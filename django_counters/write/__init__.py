"""Changes of counters: the one way in."""
