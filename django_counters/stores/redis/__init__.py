"""Increments that wait in Redis until a flush lands them in the database."""
