"""Forgets a person everywhere in one database.

Each projection that keeps something of people has a function here; see `FORGETTERS`.
"""

from __future__ import annotations

import secrets
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from django.db import DEFAULT_DB_ALIAS, router

from django_counters import clock
from django_counters.conditions import Condition
from django_counters.exceptions import RecordMissing
from django_counters.features import features
from django_counters.projections.actors import ACTOR
from django_counters.projections.event import Event, actor_of
from django_counters.registry import registry
from django_counters.sketches import member_of
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.uniques import SqlUniques
from django_counters.tables import CounterActor, CounterMeasure, CounterUnique
from django_counters.types import UNBOUNDED
from django_counters.upkeep.actors import ActorCounters, once_places
from django_counters.write.change import Change
from django_counters.write.pipeline import change

_PAGE = 500


class ForgottenActor(NamedTuple):
    """The person to forget.

    Attributes:
        actor: the text that stands for the person.
        using: the database.
        keep_counts: leave each count as it is; else take back what the person counts.
        dry_run: say what there is, and change nothing.
    """

    actor: str
    using: str
    keep_counts: bool = False
    dry_run: bool = False


class Forgetter(Protocol):
    """Forgets a person in one place. It can be called again where it was interrupted."""

    def __call__(self, asked: ForgottenActor, /) -> Mapping[str, int]:
        """Forget; how much was found of each kind."""


def forget_actor(
    who: object,
    using: str = DEFAULT_DB_ALIAS,
    *,
    keep_counts: bool = False,
    dry_run: bool = False,
) -> dict[str, int]:
    """Forget a person everywhere in one database; how much was found of each kind.

    The count of a person who counts once is taken back, so that a count stays the number of its
    actors. With ``keep_counts`` each row gets a random name instead: it no longer shows whose it
    was, or that two of them were of one person, and no count changes. Rows of a cool-down are
    deleted: how often a person was counted is not known, so the count stays in any case.

    Raises:
        InvalidActor: this is no actor.
    """
    asked = ForgottenActor(actor_of(who), using, keep_counts, dry_run)
    found: Tally[str] = Tally()
    for forget in FORGETTERS:
        found.update(forget(asked))
    for feature in features():
        found.update(
            feature.forget_actor(asked.actor, using, keep_counts=keep_counts, dry_run=dry_run)
        )
    return dict(found)


def forget_rows(asked: ForgottenActor) -> Mapping[str, int]:
    """Forget what a person has counted once."""
    found = Tally({"taken_back": 0, "renamed": 0, "deleted": 0})
    if not router.allow_migrate_model(asked.using, CounterActor):
        return found
    places = {place.measure.name: place for place in once_places(asked.using)}
    for row, measure in _rows(asked):
        place = places.get(measure)
        found[_deed(asked, place) if asked.dry_run else _forgotten(asked, row, place)] += 1
    return found


def _rows(asked: ForgottenActor) -> Iterator[tuple[CounterActor, str]]:
    """The rows of a person, with the names of their measures."""
    rows = CounterActor._base_manager.using(asked.using).filter(actor=asked.actor)
    with Session(asked.using).translated():
        measures = dict(
            CounterMeasure._base_manager.using(asked.using).order_by("pk").values_list("pk", "name")
        )
        for number, name in measures.items():
            last = ""
            while page := list(rows.filter(measure=number, key__gt=last).order_by("key")[:_PAGE]):
                yield from ((row, name) for row in page)
                last = page[-1].key


def _deed(asked: ForgottenActor, place: ActorCounters | None) -> str:
    """What becomes of a row."""
    if place is None or not place.measure.counts_rows:
        return "deleted"
    return "renamed" if asked.keep_counts else "taken_back"


def _forgotten(asked: ForgottenActor, row: CounterActor, place: ActorCounters | None) -> str:
    """Forget one row, in a transaction of its own; what became of it."""
    deed = _deed(asked, place)
    if deed == "taken_back" and place is not None:
        try:
            # Also where the count is below its floor by now: the row goes in any case.
            ref = place.ref(row.key, asked.using)._replace(bounds=UNBOUNDED)
            change(Change(ref, -1, event=Event(who=asked.actor)))
            return deed
        except RecordMissing:
            deed = "deleted"
    actors = registry.actors(asked.using)
    named = (row.measure_id, row.key, asked.actor, clock.utc())
    condition = Condition(ACTOR, named, takes_back=True)
    with actors.all_or_nothing():
        if deed == "renamed":
            actors.rename(condition, secrets.token_hex(16))
        else:
            actors.met(condition)
    return deed


def forget_members(asked: ForgottenActor) -> Mapping[str, int]:
    """Forget whom sets of distinct actors have: with ``keep_counts`` a random member takes the
    place.

    Increments that wait in a Redis are not there yet: flush before.
    """
    if not router.allow_migrate_model(asked.using, CounterUnique):
        return {"sets": 0}
    session, found = Session(asked.using), 0
    sets = SqlUniques(session)
    with session.translated():
        # Also of those that nothing declares any more: their sets are still there.
        measures = CounterMeasure._base_manager.using(asked.using).order_by("pk")
        stored = [(pk, bytes(secret)) for pk, secret in measures.values_list("pk", "secret")]
    for number, secret in stored:
        member = member_of(asked.actor, secret)
        instead = member_of(secrets.token_hex(16), secret) if asked.keep_counts else 0
        found += sets.forget(number, member, instead, dry_run=asked.dry_run)
    return {"sets": found}


#: All that keep something of people. Each is called in turn.
FORGETTERS: tuple[Forgetter, ...] = (forget_rows, forget_members)
