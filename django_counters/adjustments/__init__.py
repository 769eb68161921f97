"""Adjustments of counters, and who made them."""
