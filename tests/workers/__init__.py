"""Tests with real workers, beats and servers."""
