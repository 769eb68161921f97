"""``python3 -m tests.mutants``: break each mechanism once, and see its test fail."""
