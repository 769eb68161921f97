"""The findings: the places where increments wait, leftovers of a change of strategy, and
problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, router
from django.utils.translation import gettext as _

from django_counters import clock
from django_counters.conf import problems
from django_counters.features import Finding, Verdict, installed
from django_counters.ledger.upkeep import State, too_few
from django_counters.metrics.facts import (
    RECENT,
    Facts,
    Incidents,
    Redis,
    Unfolded,
    added,
    gather,
    local_findings,
)
from django_counters.registry import ledgers
from django_counters.tables import CounterIncident
from django_counters.tables.schema import COUNTERS
from django_counters.upkeep import Stranger

if TYPE_CHECKING:
    from django_counters.cached.sources import RedisSource

# The facts that findings are about.
NEEDED = (
    *("spread", "ledger", "redises"),
    *("incidents", "rooms", "strangers", "guard", "added"),
)
_COMMAND = "manage.py counters"
# The commands that say more about incidents of a kind.
_ABOUT = {
    CounterIncident.Kind.DRIFT: f"{_COMMAND} verify",
    CounterIncident.Kind.AUDIT: f"{_COMMAND} audit",
}


def _wrong(subject: str, strategy: str, text: str, command: str = "", **told: object) -> Finding:
    """A finding that needs a person. The text has placeholders for the command and others."""
    action = text % {"command": command, **told}
    return Finding(subject, strategy, 0, 0, action, needed=True, command=command)


def examine(using: str = DEFAULT_DB_ALIAS) -> list[Finding]:
    """Examine one database: pending increments, their places, and problems.

    Asks other servers, too, if an app has inquiries. A Redis that does not answer is a finding.
    Wrong settings and missing tables end the examination.
    """
    has_ledger = COUNTERS.stands_in(using)
    found = facts_of(using, *(part for part in NEEDED if part != "ledger" or has_ledger))
    for away in found.away:
        raise away.error
    # Without its facts it is known that nothing works.
    inquired = found.added is not None
    asked = added(using, lambda feature, using: feature.inquiries(using)) if inquired else ()
    return [*findings(found), *asked]


def verdict(found: Iterable[Finding]) -> Verdict:
    """The most urgent of the findings; OK if there are none."""
    urgent = {finding.verdict for finding in found}
    return next((one for one in (Verdict.ACT, Verdict.WARN) if one in urgent), Verdict.OK)


def facts_of(using: str, *parts: str) -> Facts:
    """Parts of the facts of a database. Wrong settings and missing tables leave them unknown."""
    found = Facts(using)
    for more in (("tables",), parts):
        if found.away or any(_hindrances(found)):
            break
        found = gather(found, *more)
    return found


def to_do(found: Facts) -> tuple[Finding, ...]:
    """The findings that need a person, as far as they are known."""
    return tuple(finding for finding in findings(found) if finding.needed)


def findings(found: Facts) -> Iterator[Finding]:
    """All findings from the gathered facts. Sends no query."""
    hindrances = list(_hindrances(found))
    if hindrances:
        yield from hindrances
        return
    yield from map(_unfolded, found.spread or ())
    if found.ledger:
        yield from _of_ledger(found.ledger)
    for redis in found.redises or ():
        yield from _of_redis(redis)
    yield from (one for one in local_findings(found.using) if isinstance(one, Finding))
    yield from map(_of_incidents, found.incidents or ())
    full = _("full: %(created)d counters were created over HTTP, as %(option)s says")
    for room in found.rooms or ():
        if room.created >= room.most:
            yield _wrong(room.namespace, "", full, created=room.created, option="max_counters")
    yield from map(_stranger, found.strangers or ())
    yield from (one for one in found.added or () if isinstance(one, Finding))
    if found.guard:
        loose = _("the guard of the adjustments is %(state)s: run %(command)s")
        yield _wrong("adjustments", "", loose, "manage.py migrate", state=found.guard)


def _hindrances(found: Facts) -> Iterator[Finding]:
    """Problems of the settings; else missing tables."""
    told = [problem.message for problem in problems(getattr(settings, "COUNTERS", None))]
    wrong = [_says_more("settings", "", message, "manage.py check") for message in told]
    yield from wrong or _missing(found)


def _says_more(subject: str, strategy: str, problem: str, command: str) -> Finding:
    """A problem with a message of its own. The command says what can be done."""
    more = _("%(command)s says more")
    return _wrong(subject, strategy, f"%(problem)s ({more})", command, problem=problem)


def _missing(found: Facts) -> Iterator[Finding]:
    using = found.using
    if found.tables is None or not COUNTERS.stands_in(using):
        return
    names = {"django_counters", *installed()}
    configs = [config for config in apps.get_app_configs() if config.name in names]
    models = [model for config in configs for model in config.get_models()]
    used = [model for model in models if router.allow_migrate_model(using, model)]
    wanted = {model._meta.db_table for model in used if model._meta.managed}
    missing = wanted - found.tables
    if missing:
        which = _("tables") if missing == wanted else ", ".join(sorted(missing))
        lacks = _("%(database)s does not have the %(tables)s: run %(command)s")
        yield _wrong("database", "", lacks, "manage.py migrate", database=using, tables=which)


def _unfolded(one: Unfolded) -> Finding:
    waits = (one.subject, one.strategy, one.rows, one.counters)
    if one.strategy == one.left_by:
        return Finding(*waits)
    command = f"{_COMMAND} upkeep rollup"
    told = {"strategy": one.left_by, "command": command}
    left = _("left from %(strategy)s: %(command)s folds it") % told
    return Finding(*waits, left, needed=True, command=command)


def _of_ledger(found: State) -> Iterator[Finding]:
    """The amount that waits in the ledger, and what holds up its rollup."""
    waits = ("ledger", "ledger", found.entries, found.counters)
    if found.fenced:
        yield Finding(*waits, found.fenced, needed=True, command=f"{_COMMAND} rebase")
    elif found.entries:
        held = _held_by(found)
        yield Finding(*waits, held, warns=bool(held))
    if ledgers() and too_few(found.partitions_ahead):
        ahead, number = _("%(number)s partitions ahead: run %(command)s"), found.partitions_ahead
        yield _wrong("ledger", "ledger", ahead, f"{_COMMAND} upkeep partitions", number=number)
    if found.locks:
        taken, room = found.locks
        many = _(
            "a read of all partitions takes %(taken)d of %(room)d locks: set retention_days, "
            "or raise max_locks_per_transaction"
        )
        yield _wrong("ledger", "ledger", many, taken=taken, room=room)


def _held_by(found: State) -> str:
    """What holds up the rollup of entries, if anything."""
    if found.holder is None:
        return ""
    what, name, since, does = found.holder
    oldest = _("the oldest %(what)s is %(name)s") % {"what": what, "name": name}
    begun = _("since %(time)s") % {"time": f"{since:%H:%M:%S}"} if since else ""
    who = ", ".join(part for part in (oldest, begun, does) if part)
    if not found.lag:
        return who
    age = _("the totals are %(seconds)d s old") % {"seconds": round(found.lag.total_seconds())}
    return f"{age}; {who}"


def _of_redis(redis: Redis) -> Iterator[Finding]:
    """The amount that waits in one Redis, and its problems."""
    if redis.source.pending is None:
        yield _lost(redis.source)
    elif redis.generations is None:
        mute = _("it cannot be asked: %(reason)s")
        yield _wrong(redis.name, "cached", mute, reason=redis.problem)
    elif redis.is_foreign:
        foreign = _(
            "it holds increments for another database: if this one has taken its place, "
            "run %(command)s"
        )
        yield _wrong(redis.name, "cached", foreign, f"{_COMMAND} flush --adopt")
    elif redis.generations:
        yield _waiting(redis, redis.generations)
    for code, message in redis.weak:
        if f"counters.{code}" not in settings.SILENCED_SYSTEM_CHECKS:
            yield _says_more(redis.name, "cached", message, "manage.py check --deploy")


def _lost(source: RedisSource) -> Finding:
    if source.is_declared:
        return _says_more(source.name, "cached", source.problem, "manage.py check")
    gone = _("it was counted in, and cannot be found to flush it: %(problem)s")
    return _wrong(source.name, "cached", gone, problem=source.problem)


def _waiting(redis: Redis, generations: int) -> Finding:
    command = f"{_COMMAND} flush" if redis.is_late else ""
    told = {"minutes": clock.LATE // timedelta(minutes=1), "command": command}
    never = _("nothing has landed for %(minutes)d minutes: does %(command)s run?") % told
    return Finding(
        *(redis.name, "cached", generations, redis.counters, never if redis.is_late else ""),
        needed=redis.is_late,
        lag=round(redis.lag.total_seconds() if redis.lag else 0.0, 3),
        command=command,
    )


def _of_incidents(one: Incidents) -> Finding:
    last = f"{one.last:%Y-%m-%d %H:%M}"
    told = {"kind": one.label, "number": one.number, "days": RECENT.days, "last": last}
    what = _("%(kind)s: %(number)d in %(days)d days, the last at %(last)s") % told
    if one.kind == CounterIncident.Kind.HISTORY:
        # Each restart of a Redis is one, also if nothing was lost. Nothing has to be done.
        return Finding("incidents", "", 0, 0, what, warns=True)
    if one.kind in _ABOUT:
        return _says_more("incidents", "", what, _ABOUT[CounterIncident.Kind(one.kind)])
    return Finding("incidents", "", 0, 0, what, needed=True)


def _stranger(one: Stranger) -> Finding:
    label = f"{one.kind.app_label}.{one.kind.model}.{one.name}"
    if one.has_model:
        slots = f"SlottedCounter.objects.filter(record_type={one.kind.pk}, name={one.name!r})"
        command = f"{slots}.delete()"
        gone = _("the field is gone: %(command)s drops what is left, %(amount)d in %(rows)d rows")
    else:
        # By default, Django ignores apps that are not installed.
        is_there = one.kind.app_label in apps.app_configs
        stale = "manage.py remove_stale_contenttypes"
        command = stale if is_there else f"{stale} --include-stale-apps"
        gone = _("the model is gone: %(command)s drops what is left, %(amount)d in %(rows)d rows")
    return _wrong(label, "", gone, command, amount=one.amount, rows=one.rows)
