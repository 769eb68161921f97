"""Tests of the example project."""
