"""Real servers that are killed, cut off and rolled back while counters count."""
