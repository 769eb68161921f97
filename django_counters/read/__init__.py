"""Values of counters, and how they came about: the way out."""
