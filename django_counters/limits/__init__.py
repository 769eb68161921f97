"""How often something may be done, and how many counters there may be."""
