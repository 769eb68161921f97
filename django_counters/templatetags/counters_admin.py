"""Shows numbers in the pages of the admin: ``{% load counters_admin %}``."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.formats import number_format

register = template.Library()


@register.filter
def grouped(value: Any) -> Any:
    """A number with its thousands apart, as the active language writes it: ``12,345``.

    What is no number comes back as it is.
    """
    return number_format(value, force_grouping=True) if isinstance(value, int) else value
