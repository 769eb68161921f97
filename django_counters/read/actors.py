"""Who has counted what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from django.db import models
from django.db.models import Q

from django_counters import clock
from django_counters.exceptions import InvalidMoment, UnsupportedActors
from django_counters.measure import Measure
from django_counters.options import is_integer
from django_counters.projections.actors import OncePerActor
from django_counters.projections.event import actor_of
from django_counters.registry import registry
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterActor

_IDS = 500
MOST = 1_000


class Actor(NamedTuple):
    """An actor who has counted.

    Attributes:
        who: the text that stands for the actor.
        at: when the actor was last counted.
    """

    who: str
    at: datetime

    @property
    def cursor(self) -> str:
        """What `actors` takes as ``before``, to go on behind this one."""
        return f"{self.at.isoformat()} {self.who}"


def has_many(
    measure: Measure | None, keys: Mapping[str, object], who: object, using: str, label: str
) -> set[object]:
    """Those among some counters that an actor has counted and may not count again.

    Args:
        measure: the declaration.
        keys: what callers call each counter, by its key.
        who: whom.
        using: the database.
        label: what people call the counters.
    """
    rows = _rows(measure, using, label).filter(actor=actor_of(who))
    condition = measure.condition if measure else None
    if isinstance(condition, OncePerActor) and condition.time is not None:
        rows = rows.filter(created_at__gt=clock.shown(clock.utc() - condition.time))
    found: set[object] = set()
    texts = list(keys)
    with Session(using).translated():
        for start in range(0, len(texts), _IDS):
            page = rows.filter(key__in=texts[start : start + _IDS])
            found.update(keys[key] for key in page.values_list("key", flat=True))
    return found


def actors(
    measure: Measure | None, key: str, limit: int, before: str | None, using: str, label: str
) -> list[Actor]:
    """Who has counted one counter, the last one first; those behind a cursor, if it is given."""
    if not is_integer(limit, 1, MOST):
        raise ValueError(f"limit is an integer from 1 to {MOST}, not {limit!r}")
    rows = _rows(measure, using, label).filter(key=key)
    if before is not None:
        at, who = _parsed(before)
        rows = rows.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(actor__lt=who))
    page = rows.order_by("-created_at", "-actor").values_list("actor", "created_at")[:limit]
    with Session(using).translated():
        return [Actor(who, at) for who, at in page]


def _rows(measure: Measure | None, using: str, label: str) -> models.QuerySet[CounterActor]:
    if measure is None or not isinstance(measure.condition, OncePerActor):
        raise UnsupportedActors(key=label, reason="it declares no once")
    stored = registry.measures(using).find(measure.name)
    rows = CounterActor._base_manager.using(using)
    return rows.none() if stored is None else rows.filter(measure_id=stored.id)


def _parsed(cursor: object) -> tuple[datetime, str]:
    at, _, who = cursor.partition(" ") if isinstance(cursor, str) else ("", "", "")
    try:
        return clock.shown(clock.meant(datetime.fromisoformat(at)).astimezone(UTC)), actor_of(who)
    except (ValueError, OverflowError) as error:
        raise InvalidMoment(moment=cursor, reason="it is no cursor of actors()") from error
