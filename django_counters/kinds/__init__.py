"""What can be asked of counters."""
