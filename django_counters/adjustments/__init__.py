"""Corrections of counters, and who made them."""
