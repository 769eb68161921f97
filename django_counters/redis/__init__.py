"""Redis: its addresses, the keys, and a client that sends nothing twice."""
