"""Puts members into sets, forgets actors, and reports members that nothing puts into sets."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import timedelta

from django.db import router
from django.db.models import Count
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.contrib.uniques.models import CounterMember, CounterUnique
from django_counters.contrib.uniques.sql import SqlUniques
from django_counters.features import Finding
from django_counters.ledger.upkeep import since_rollup
from django_counters.measure import member_of
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterMeasure
from django_counters.tables.schema import COUNTERS


def fold(using: str, *, dry_run: bool = False) -> int:
    """Put members into their sets; return their number. With ``dry_run``, only count them."""
    if not router.allow_migrate_model(using, CounterUnique):
        return 0
    uniques = SqlUniques(Session(using))
    return uniques.waiting() if dry_run else uniques.fold()


def forget_member(actor: str, using: str, *, keep_counts: bool, dry_run: bool) -> int:
    """Take an actor out of all exact sets; return the number of these sets.

    With ``keep_counts`` a random member takes the place. Increments in Redis aren't in a set yet:
    flush before.
    """
    if not router.allow_migrate_model(using, CounterUnique):
        return 0
    session, found = Session(using), 0
    sets = SqlUniques(session)
    with session.translated():
        # Measures that nothing declares any more still have sets.
        measures = CounterMeasure._base_manager.using(using).order_by("pk")
        stored = [(pk, bytes(secret)) for pk, secret in measures.values_list("pk", "secret")]
    for number, secret in stored:
        member = member_of(actor, secret)
        instead = member_of(secrets.token_hex(16), secret) if keep_counts else 0
        found += sets.forget(number, member, instead, dry_run=dry_run)
    return found


def pending(using: str) -> Iterator[Finding]:
    """Yield the members of each namespace or field that wait for a rollup. One or two queries."""
    if not router.allow_migrate_model(using, CounterMember):
        return
    rows = CounterMember._base_manager.using(using).values("measure__name", "measure__made_at")
    rows = rows.annotate(rows=Count("member"), counters=Count("key", distinct=True))
    found = list(rows.order_by("measure__name"))
    here = COUNTERS.stands_in(using)
    idle = since_rollup(using) if found and here else None
    for row in found:
        # None of them is older than the measure.
        age = clock.utc() - clock.meant(row["measure__made_at"])
        waits = (f"members of {row['measure__name']}", "", row["rows"], row["counters"])
        if not here or min(age, idle or age) <= clock.LATE:
            yield Finding(*waits)
            continue
        command = "manage.py counters upkeep rollup"
        late = {"minutes": clock.LATE // timedelta(minutes=1), "command": command}
        never = _("no rollup has ended for %(minutes)d minutes: does %(command)s run?") % late
        yield Finding(*waits, never, needed=True, command=command)
