"""The members that wait to be put into their sets, and whether a rollup comes for them."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from django.db import router
from django.db.models import Count

from django_counters import clock
from django_counters.tables import CounterMember


class Members(NamedTuple):
    """The members of one namespace or field that wait for a rollup.

    Attributes:
        subject: the namespace, or ``app.Model.field``.
        rows: how many members wait.
        counters: the number of their counters.
        age: how long ago it was declared: none of them waits for longer.
    """

    subject: str
    rows: int
    counters: int
    age: timedelta

    def waits(self, idle: timedelta | None) -> timedelta:
        """For how long some of them may have waited, given how long ago the last rollup was."""
        return self.age if idle is None else min(self.age, idle)


def waiting(using: str) -> tuple[Members, ...]:
    """The members that wait in a database. One query."""
    if not router.allow_migrate_model(using, CounterMember):
        return ()
    rows = CounterMember._base_manager.using(using).values("measure__name", "measure__made_at")
    found = rows.annotate(rows=Count("member"), counters=Count("key", distinct=True))
    return tuple(
        Members(
            row["measure__name"],
            row["rows"],
            row["counters"],
            clock.utc() - clock.meant(row["measure__made_at"]),
        )
        for row in found.order_by("measure__name")
    )
