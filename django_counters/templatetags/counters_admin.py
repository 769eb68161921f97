"""Shows numbers in the pages of the admin: ``{% load counters_admin %}``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import template
from django.utils.formats import number_format

register = template.Library()


def grouped(number: int | Decimal) -> str:
    """A number with its thousands apart, as the active language writes it: ``12,345``."""
    return number_format(number, force_grouping=True)


def signed(change: int) -> str:
    """A change with its sign."""
    return f"{'+' if change > 0 else ''}{grouped(change)}"


@register.filter("grouped")
def grouped_number(value: Any) -> Any:
    """`grouped` for templates. A value that is no integer is returned unchanged."""
    return grouped(value) if isinstance(value, int) else value
