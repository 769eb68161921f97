"""The state of counters, for pages, commands and metrics. Changes nothing."""
