"""Changes by day of the week: rows without periods, made by the projector of their app."""

from __future__ import annotations

from django.apps import AppConfig

from django_counters.features import Feature
from django_counters.measure import KEY, NUMBER, SHARD, Kind, RowColumn
from django_counters.options import Option, Projection

#: How often a counter was changed on each day of the week.
WEEKDAY = Kind(
    "weekday",
    "weekdays",
    "weekdays_weekday",
    (
        RowColumn("m", "measure_id", "int"),
        KEY,
        RowColumn("w", "weekday", "smallint"),
        SHARD,
        NUMBER,
    ),
    each=True,
    varied="w",
    mark="w",
    order=1500,
)


class Weekdays(Feature):
    """What the app adds."""

    options = (
        Projection(
            name="weekdays",
            options=(Option("weekdays", False, "True or False", "Count days of the week."),),
            problems=lambda **_: iter(()),
            make=lambda weekdays, **_: {"weekdays": ("each",)} if weekdays else {},
            in_namespaces="E110",
            in_fields="E111",
        ),
    )
    kinds = (WEEKDAY,)
    tables = (WEEKDAY.table,)
    projector = "tests.extension.weekdays.projector.PROJECTOR"


class WeekdaysConfig(AppConfig):
    """The app."""

    name = "tests.extension.weekdays"
    default_auto_field = "django.db.models.BigAutoField"
    counters_feature = Weekdays()
