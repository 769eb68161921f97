"""Rate limits, and limits of the number of counters."""
