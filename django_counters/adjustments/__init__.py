"""Adjustments of counters, and who made them."""

#: How many counters a transaction adjusts at once.
STEP = 100
