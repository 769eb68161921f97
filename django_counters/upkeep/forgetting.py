"""Forgets a person everywhere in one database.

Each projection that keeps something of people has a function here; see `FORGETTERS`.
"""

from __future__ import annotations

import secrets
from collections import Counter as Tally
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from django.db import DEFAULT_DB_ALIAS, router

from django_counters.features import features
from django_counters.projections.event import actor_of
from django_counters.sketches import member_of
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.uniques import SqlUniques
from django_counters.tables import CounterMeasure, CounterUnique


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
FORGETTERS: tuple[Forgetter, ...] = (forget_members,)
