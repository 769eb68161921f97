"""The findings: the places where increments wait, leftovers of a change of strategy, and
problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.apps import apps
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, router
from django.utils.translation import gettext as _

from django_counters import conf, upkeep
from django_counters.features import Finding, Verdict, installed
from django_counters.metrics import facts
from django_counters.tables import CounterIncident
from django_counters.tables.schema import COUNTERS

_COMMAND = "manage.py counters"
# The commands that say more about incidents of a kind.
_ABOUT = {
    CounterIncident.Kind.DRIFT: f"{_COMMAND} verify",
    CounterIncident.Kind.AUDIT: f"{_COMMAND} audit",
}


def examine(using: str = DEFAULT_DB_ALIAS) -> list[Finding]:
    """Examine one database: pending increments, their places, and problems.

    Asks other servers, too, if an app has inquiries. A Redis that does not answer is a finding.
    Wrong settings and missing tables end the examination.
    """
    found = facts_of(using, *needed())
    for away in found.away:
        raise away.error
    # Without its facts it is known that nothing works.
    inquired = found.added is not None
    asked = facts.added(using, lambda feature, using: feature.inquiries(using)) if inquired else ()
    return [*findings(found), *asked]


def needed() -> tuple[str, ...]:
    """Return the names of the facts that findings are about."""
    of_features = (name for name, part in facts.feature_parts().items() if part.examined)
    return ("spread", *of_features, "incidents", "rooms", "strangers", "guard", "added")


def verdict(found: Iterable[Finding]) -> Verdict:
    """The most urgent of the findings; OK if there are none."""
    urgent = {finding.verdict for finding in found}
    return next((one for one in (Verdict.ACT, Verdict.WARN) if one in urgent), Verdict.OK)


def facts_of(using: str, *parts: str) -> facts.Facts:
    """Parts of the facts of a database. Wrong settings and missing tables leave them unknown."""
    found = facts.Facts(using)
    for more in (("tables",), parts):
        if found.away or any(_hindrances(found)):
            break
        found = facts.gather(found, *more)
    return found


def to_do(found: facts.Facts) -> tuple[Finding, ...]:
    """The findings that need a person, as far as they are known."""
    return tuple(finding for finding in findings(found) if finding.needed)


def findings(found: facts.Facts) -> Iterator[Finding]:
    """All findings from the gathered facts. Sends no query."""
    hindrances = list(_hindrances(found))
    if hindrances:
        yield from hindrances
        return
    yield from map(_unfolded, found.spread or ())
    for name, part in facts.feature_parts().items():
        if name in found.parts:
            yield from part.findings(found.parts[name])
    yield from (one for one in facts.local_findings(found.using) if isinstance(one, Finding))
    yield from map(_of_incidents, found.incidents or ())
    full = _("full: %(created)d counters were created over HTTP, as %(option)s says")
    for room in found.rooms or ():
        if room.created >= room.most:
            yield facts.wrong(room.namespace, "", full, created=room.created, option="max_counters")
    yield from map(_stranger, found.strangers or ())
    yield from (one for one in found.added or () if isinstance(one, Finding))
    if found.guard:
        loose = _("the guard of the adjustments is %(state)s: run %(command)s")
        yield facts.wrong("adjustments", "", loose, "manage.py migrate", state=found.guard)


def _hindrances(found: facts.Facts) -> Iterator[Finding]:
    """Problems of the settings; else missing tables."""
    told = [problem.message for problem in conf.problems(getattr(settings, "COUNTERS", None))]
    of_settings = [facts.says_more("settings", "", message, "manage.py check") for message in told]
    yield from of_settings or _missing(found)


def _missing(found: facts.Facts) -> Iterator[Finding]:
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
        yield facts.wrong("database", "", lacks, "manage.py migrate", database=using, tables=which)


def _unfolded(one: facts.Unfolded) -> Finding:
    waits = (one.subject, one.strategy, one.rows, one.counters)
    if one.strategy == one.left_by:
        return Finding(*waits)
    command = f"{_COMMAND} upkeep rollup"
    told = {"strategy": one.left_by, "command": command}
    left = _("left from %(strategy)s: %(command)s folds it") % told
    return Finding(*waits, left, needed=True, command=command)


def _of_incidents(one: facts.Incidents) -> Finding:
    last = f"{one.last:%Y-%m-%d %H:%M}"
    told = {"kind": one.label, "number": one.number, "days": facts.RECENT.days, "last": last}
    what = _("%(kind)s: %(number)d in %(days)d days, the last at %(last)s") % told
    if one.kind == CounterIncident.Kind.HISTORY:
        # Each restart of a Redis is one, also if nothing was lost. Nothing has to be done.
        return Finding("incidents", "", 0, 0, what, warns=True)
    if one.kind in _ABOUT:
        return facts.says_more("incidents", "", what, _ABOUT[CounterIncident.Kind(one.kind)])
    return Finding("incidents", "", 0, 0, what, needed=True)


def _stranger(one: upkeep.Stranger) -> Finding:
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
    return facts.wrong(label, "", gone, command, amount=one.amount, rows=one.rows)
