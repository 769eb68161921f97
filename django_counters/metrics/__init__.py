"""The state of counters: for the doctor, Prometheus, the overview and Django Debug Toolbar."""
