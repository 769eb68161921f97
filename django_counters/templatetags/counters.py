"""Shows counters in templates: ``{% load counters %}``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import template
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import pgettext

from django_counters.fields.values import Counting
from django_counters.models import Counter
from django_counters.templatetags.counters_admin import grouped
from django_counters.types import Unknown

register = template.Library()
# A page that renders must not fail because a Redis is away: an exact read would.
_FOR_PAGES = "cached"


@register.filter
def compact(value: Any) -> Any:
    """A number in a few characters, as the active language writes it: ``12.3M``, ``12,3 Mio.``.

    It is rounded towards zero, so it never says more than was counted. Other values are returned
    unchanged.
    """
    if not isinstance(value, int | Decimal):
        return value
    # How many zeros each unit stands for, the smallest first. A unit that stands apart from its
    # number begins with a no-break space.
    units = pgettext("units of compact numbers", "3:K 6:M 9:B 12:T")
    for zeros, unit in (one.split(":") for one in reversed(units.split(" "))):
        size = 10 ** int(zeros)
        if abs(value) >= size:
            whole, tenth = divmod(abs(int(value)) * 10 // size, 10)
            # Django cuts off the other places.
            return number_format(Decimal(value) / size, 1 if tenth and whole < 100 else 0) + unit
    return grouped(value)


@register.simple_tag
def counter(counted: Any) -> Any:
    """The value of a counter as a compact number; the exact one is in its title.

    ``counted`` is a number that was loaded (``post.views``), which takes no query. Or it is a key
    (``"likes:post:1"``), ``Post.views.of(1)``, or an object of an app with a ``counter_key``: these
    are read with ``consistency="cached"``. While Redis is away that shows what has landed, and
    raises nothing. Anything else is shown as it is.

    Raises:
        InvalidKey: no counter can have that key.
        RecordMissing: of ``Post.views.of(1)``, where there is no such record.
    """
    value = _value_of(counted)
    if not isinstance(value, int | Decimal):
        return value
    exact = grouped(value)
    return format_html('<data value="{}" title="{}">{}</data>', str(value), exact, compact(value))


def _value_of(counted: Any) -> Any:
    if not isinstance(counted, Counting | Unknown):
        counted = getattr(counted, "counter_key", counted)
    if isinstance(counted, str) and counted and not isinstance(counted, Unknown):
        return Counter.objects.value(counted, consistency=_FOR_PAGES)
    if isinstance(counted, Counting) and not isinstance(counted, int | Decimal):
        return counted.value(consistency=_FOR_PAGES)
    return counted
