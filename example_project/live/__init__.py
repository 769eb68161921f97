"""A page that shows the counters moving."""
