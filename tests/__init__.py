"""The tests of django_counters and of its example project."""
