"""The projector of the app, beside that of series."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django_counters import clock
from django_counters.event import Event
from django_counters.measure import Measure
from django_counters.projector import Projector
from django_counters.registry import registry
from django_counters.types import Cell, Effect
from tests.extension.weekdays.apps import WEEKDAY


class WeekdayProjector(Projector):
    """Makes the rows of days of the week."""

    def effects(
        self, measure: Measure, key: str, by: int, event: Event, *, using: str, **_: Any
    ) -> tuple[Effect, ...]:
        if not measure.declared(WEEKDAY.option):
            return ()
        number = registry.measures(using).ensure(measure).id
        day = (event.at or clock.utc()).astimezone(UTC).isoweekday()
        return (Effect(Cell(WEEKDAY, (number, day)), 1),)


PROJECTOR = WeekdayProjector()
