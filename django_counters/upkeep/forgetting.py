"""Forgets a person everywhere in one database: each app forgets its own rows."""

from __future__ import annotations

from collections import Counter as Tally

from django.db import DEFAULT_DB_ALIAS

from django_counters.features import features
from django_counters.projections.event import actor_of


def forget_actor(
    who: object,
    using: str = DEFAULT_DB_ALIAS,
    *,
    keep_counts: bool = False,
    dry_run: bool = False,
) -> dict[str, int]:
    """Delete what identifies a person in one database, and return how much of each kind.

    Can be called again after an interruption.

    Args:
        who: the person, as `increment` takes it.
        using: the database.
        keep_counts: leave each count as it is; else take back what the person counts.
        dry_run: count the rows, and change nothing.

    Raises:
        InvalidActor: this is no actor.
    """
    actor = actor_of(who)
    forgotten: Tally[str] = Tally()
    for feature in features():
        forgotten.update(
            feature.forget_actor(actor, using, keep_counts=keep_counts, dry_run=dry_run)
        )
    return dict(forgotten)
