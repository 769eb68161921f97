"""Tests of the benchmarks' arithmetic; no test asserts a time."""
