"""How one counter went, as its page shows it: what the address asks for, and what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_counters.admin.bars import bars_of, numbers_of, word_of
from django_counters.admin.chart import chart_of, label_of, words_of
from django_counters.exceptions import CounterError
from django_counters.read.chart import SPANS, Chart, charted, offered
from django_counters.read.counted import Counted, counted, periods_of, tags_of

_PERIODS: dict[str, Callable[[], str]] = {
    "hour": lambda: _("Hours"),
    "day": lambda: _("Days"),
    "week": lambda: _("Weeks"),
    "month": lambda: _("Months"),
}


def history_of(key: str, request: HttpRequest) -> dict[str, Any]:
    """The context of the section: bars of what is counted by period, else a chart of the value."""
    if periods_of(key):
        return _bars(key, _counted(key, request))
    found = _chart(key, request)
    return {
        "series": found,
        "chart": chart_of(found) if found.points else None,
        "period": words_of(found.by),
        "rows": [(label_of(point, found.by), point) for point in reversed(found.points)],
        "periods": _links(offered(key), found.by),
        "query": urlencode({"by": found.by}),
    }


def numbers(key: str, request: HttpRequest) -> dict[str, Any]:
    """The numbers of the chart, as JSON has them."""
    if periods_of(key):
        return numbers_of(_counted(key, request))
    return chart_of(_chart(key, request))


def _bars(key: str, found: Counted) -> dict[str, Any]:
    splits = [("", _("all together")), *((tag, tag) for tag in tags_of(key))]
    return {
        "series": found,
        "bars": bars_of(found) if found.starts else None,
        "period": word_of(found.by),
        "periods": _links(periods_of(key), found.by, found.split),
        "splits": [
            (_query(found.by, tag), name, tag == found.split) for tag, name in splits if splits[1:]
        ],
        "query": _query(found.by, found.split),
    }


def _links(periods: tuple[str, ...], present: str, split: str = "") -> list[tuple[str, str, bool]]:
    """Query, name, and whether it is this one."""
    return [(_query(by, split), _PERIODS[by](), by == present) for by in periods]


def _query(by: str, split: str) -> str:
    return urlencode({"by": by, **({"split": split} if split else {})})


def _counted(key: str, request: HttpRequest) -> Counted:
    by, split = request.GET.get("by", ""), request.GET.get("split", "")
    try:
        return counted(key, by, split)
    except CounterError:
        return Counted(key, by if by in periods_of(key) else periods_of(key)[0], "", (), ())


def _chart(key: str, request: HttpRequest) -> Chart:
    """As the address asks for it; nothing of what somebody has made by hand and is no key."""
    by = request.GET.get("by", "")
    by = by if by in SPANS else "hour"
    try:
        return charted(key, by)
    except CounterError:
        return Chart(key, by, "none", ())
