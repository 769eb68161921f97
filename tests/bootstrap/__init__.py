"""Tests of the way from a bare Python to running servers."""
