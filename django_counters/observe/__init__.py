"""How counters are doing, for whoever tells of it: it asks, and changes nothing."""
