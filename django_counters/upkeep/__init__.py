"""Periodic work as plain functions, for a command, a task or a test to call."""
