"""How one counter went, as its page shows it: the question in the address, and the drawing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_counters.admin.bars import bars_of, label_of, numbers_of, word_of
from django_counters.exceptions import CounterError
from django_counters.models import Counter, CounterCell
from django_counters.read.chart import Chart, charted, periods_of, tags_of
from django_counters.read.people import people_of
from django_counters.read.top import Placed
from django_counters.registry import registry

_PERIODS: dict[str, Callable[[], str]] = {
    "hour": lambda: _("Hours"),
    "day": lambda: _("Days"),
    "week": lambda: _("Weeks"),
    "month": lambda: _("Months"),
}


def history_of(key: str, request: HttpRequest) -> dict[str, Any]:
    """The context of the section."""
    found = _chart(key, request)
    periods = [(_query(by, found.split), _PERIODS[by](), by == found.by) for by in periods_of(key)]
    splits = [("", _("all together")), *((tag, tag) for tag in tags_of(key))]
    return {
        "series": found,
        "bars": bars_of(found) if found.starts else None,
        "period": word_of(found.by),
        "periods": periods,
        "splits": [
            (_query(found.by, tag), name, tag == found.split) for tag, name in splits if splits[1:]
        ],
        "query": _query(found.by, found.split),
        "people": _people(key, found.by),
        "places": _places(key),
    }


def _people(key: str, by: str) -> dict[str, Any] | None:
    """How many different people there were; None where that is not counted, or cannot be told."""
    try:
        found = people_of(key, by)
    except CounterError:
        return None
    if found is None:
        return None
    return {
        "period": word_of(found.by),
        "whole": found.whole,
        "error": localize(round(100 * found.whole.error, 2)),
        "rows": [(label_of(one.start, found.by), one.value) for one in reversed(found.points)],
    }


def _places(key: str) -> list[tuple[Any, Placed]]:
    """Which place it has in each present period that is ranked, where that is known."""
    found = []
    measure = registry.policy(key).measure
    for by in measure.top if measure else ():
        with suppress(CounterError):
            place = Counter.objects.series(key).per(by).place()
            found.append((CounterCell.Period[by.upper()].label, place))
    return found


def numbers(key: str, request: HttpRequest) -> dict[str, Any]:
    """The numbers of the chart, as JSON has them."""
    return numbers_of(_chart(key, request))


def _query(by: str, split: str) -> str:
    return urlencode({"by": by, **({"split": split} if split else {})})


def _chart(key: str, request: HttpRequest) -> Chart:
    """As the address asks for it; nothing for a handmade text that is no key."""
    by, told = request.GET.get("by", ""), periods_of(key)
    by = by if by in told else next(iter(told), "hour")
    try:
        return charted(key, by, request.GET.get("split", ""))
    except CounterError:
        return Chart(key, by)
