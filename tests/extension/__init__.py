"""An app of somebody else, which adds a small capability to counters without a change in them."""
