"""A shop: products whose stock is a counter that never falls below zero."""
