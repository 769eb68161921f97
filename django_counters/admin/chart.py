"""What a chart of one counter is drawn from."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_counters import clock
from django_counters.read.chart import Chart, ChartPoint


def chart_of(found: Chart) -> dict[str, Any]:
    """Numbers, moments, and the words beside them: for a script, and for whoever asks for JSON."""
    return {
        "key": found.key,
        "by": found.by,
        "source": found.source,
        "moments": [clock.meant(point.moment).isoformat() for point in found.points],
        "labels": [label_of(point, found.by) for point in found.points],
        "values": [point.value for point in found.points],
        "changes": [point.change for point in found.points],
        "words": {
            "period": words_of(found.by),
            "value": _("Value"),
            "change": pgettext("of a number", "Change"),
        },
    }


def label_of(point: ChartPoint, by: str) -> str:
    """When a period begins, in the language and by the clock of who looks at it."""
    moment = point.moment
    if timezone.is_aware(moment):
        moment = timezone.localtime(moment)
    return date_format(moment, "DATE_FORMAT" if by == "day" else "SHORT_DATETIME_FORMAT")


def words_of(by: str) -> str:
    """What a period is called."""
    return _("Day") if by == "day" else _("Hour")
