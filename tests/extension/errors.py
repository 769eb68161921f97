"""An error of the app."""

from __future__ import annotations


class NoMood(Exception):
    """Nobody has told a mood of this counter."""
