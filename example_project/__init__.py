"""The example project: one command that shows counters on real servers."""
