"""Numbers in texts of the admin."""

from __future__ import annotations

from django.utils.formats import number_format


def grouped(number: int) -> str:
    """A number with its thousands apart, as the active language writes it: ``12,345``."""
    return number_format(number, force_grouping=True)


def signed(change: int) -> str:
    """A change with its sign."""
    return f"{'+' if change > 0 else ''}{grouped(change)}"
