"""Cached counters: increments wait in Redis, and a flush lands them in the totals, once."""
