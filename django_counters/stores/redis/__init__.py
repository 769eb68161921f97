"""Increments that wait in Redis, until they are landed in the database."""
