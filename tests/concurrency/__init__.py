"""Many writers at once, on a real database. Every test compares sums; none compares times."""
