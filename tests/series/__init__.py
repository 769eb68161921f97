"""Counts over time and by tag."""
