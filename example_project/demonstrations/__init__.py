"""The naive ways to count, each made to fail for certain, and the same with django_counters."""
