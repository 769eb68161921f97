"""Increments that wait outside of the database land in it, once."""
