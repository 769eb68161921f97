"""System checks of settings, databases and Redis. `apps` registers them, fields their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.apps.config import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage
from django.db import connections, router
from django.db.models import Model
from django.urls import get_resolver
from django.utils import timezone
from django.utils.module_loading import import_string

from django_counters import access, clock, errors, jobs, tenants
from django_counters.conf import STRATEGIES, own_options, policies, problems
from django_counters.features import Feature, Leftover, absent, contrib_label, features, installed
from django_counters.fields import CounterField
from django_counters.hints import message_of
from django_counters.models import Counter, CounterDelta, CounterMeasure
from django_counters.registry import ledgers
from django_counters.stores.sql.dialects import DIALECTS
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterSource
from django_counters.tables.schema import databases
from django_counters.upkeep import caches, columns, declared_measures, serving

if TYPE_CHECKING:
    from django_counters.cached.sources import RedisSource

OLDEST_SQLITE = (3, 35, 0)


def _reported(look: Callable[[], Iterable[tuple[str, str]]]) -> Callable[..., list[CheckMessage]]:
    """Make a check for Django, from a function that yields ids and messages."""

    @wraps(look)
    def check(**_: Any) -> list[CheckMessage]:
        return [message_of(code, text) for code, text in look()]

    return check


@_reported
def check_setting() -> Iterator[tuple[str, str]]:
    """E001 to E005, E008, E009, E019, E023, E025 to E027, E033, E036, E040, E062: the
    contents of ``COUNTERS``."""
    return problems(getattr(settings, "COUNTERS", None))


@_reported
def check_upkeep() -> Iterator[tuple[str, str]]:
    """E061: the contents of ``COUNTERS_UPKEEP``."""
    for message in jobs.upkeep_problems():
        yield "E061", message


@_reported
def check_apps() -> Iterator[tuple[str, str]]:
    """E062: settings of capabilities whose apps aren't installed, and kinds without a projector."""
    adding = [app for app, one in installed().items() if one.kinds and not one.projector]
    kinds = [f"Feature.kinds of {app!r}" for app in adding]
    for app, feature in absent().items():
        for name in (*feature.settings, *(kinds if feature.projector else ())):
            if name in kinds or hasattr(settings, name):
                yield "E062", f"{name} needs {app!r} in INSTALLED_APPS."


@_reported
def check_routers() -> Iterator[tuple[str, str]]:
    """E064 for each table that a database with counters lacks, W025 for other databases."""
    homes = [alias for alias in connections if router.allow_migrate_model(alias, Counter)]
    tables = {table for feature in features() for table in feature.tables}
    for model in apps.get_models():
        if model._meta.db_table not in tables:
            continue
        label = model._meta.label
        home, written = router.db_for_write(Counter), router.db_for_write(model)
        for alias in homes:
            if not router.allow_migrate_model(alias, model):
                yield "E064", f"Routers allow counters in {alias!r}, and {label} not there."
        if written != home:
            yield "W025", f"Routers write counters to {home!r}, and {label} to {written!r}."


@_reported
def check_names() -> Iterator[tuple[str, str]]:
    """E065: names that several apps declare, or an app and this package."""
    if not installed():
        # Options of strategies are asked for, which imports all of them.
        return
    owners = {("option", name): ["django_counters"] for name in own_options()}
    owners |= {("action of the API", name): ["django_counters"] for name in access.ACTIONS}
    owners |= {("strategy", name): ["django_counters"] for name in STRATEGIES}
    for app, feature in serving().items():
        for declared in sorted(_names_of(feature)):
            owners.setdefault(declared, []).append(app)
    for (kind, name), several in owners.items():
        if len(several) > 1:
            yield "E065", f"{' and '.join(several)} declare the same {kind}: {name!r}."


def _names_of(feature: Feature) -> set[tuple[str, str]]:
    """Return the kind and the name of all that no other app can declare."""
    options = [*feature.namespace_options]
    options += [option for projection in feature.options for option in projection.options]
    names = {("option", option.name.upper()) for option in options}
    names |= {("metric", tally.name) for tally in feature.tallies}
    names |= {("metric", gauge.name) for gauge in feature.gauges()}
    names |= {("part", part.name) for part in feature.parts()}
    names |= {("action of the API", name) for name in (*feature.actions, *feature.reads)}
    names |= {("strategy", name) for name in feature.strategies}
    names |= {("sub-command", name) for name in feature.commands}
    names |= {("outlet", name) for name in feature.outlets()}
    if feature.rest and apps.is_installed("rest_framework"):
        # Also of the routes that the module includes. Its other keys are views.
        routes = get_resolver(feature.rest).reverse_dict
        names |= {("route", name) for name in routes if isinstance(name, str)}
    return names


@_reported
def check_caches() -> Iterator[tuple[str, str]]:
    """E021 and W016: whether cached counters can be kept where they are declared.

    It connects to nothing. Who only makes migrations needs no Redis: where a development machine
    has another kind of cache, that is no error before counting begins.
    """
    from django_counters.redis.addresses import is_other_cache

    for source in _redises():
        declared_by = ", ".join(source.declared_by)
        if source.problem and is_other_cache(source.name):
            yield "W016", f"{declared_by} cannot be counted here: {source.problem}"
        elif source.problem:
            yield "E021", f"{declared_by} cannot be cached there: {source.problem}"


@_reported
def check_caches_in_use() -> Iterator[tuple[str, str]]:
    """E021, with ``check --deploy``: also for what W016 warns of."""
    for message in check_caches():
        if message.id == "counters.W016":
            yield "E021", message.msg


@_reported
def check_cached_as_exact() -> Iterator[tuple[str, str]]:
    """W017, with ``check --deploy``: whether cached counters use no Redis."""
    if getattr(settings, "COUNTERS_CACHED_AS_EXACT", False):
        yield "W017", "COUNTERS_CACHED_AS_EXACT is for development and tests: nothing is cached."


@_reported
def check_servers() -> Iterator[tuple[str, str]]:
    """W012 to W015, W023, with ``check --deploy``: how the Redis of cached counters is set up."""
    for source in _redises():
        if source.pending:
            # Imported where counters are cached.
            yield from import_string("django_counters.cached.state.weaknesses")(source.pending)


def _redises() -> list[RedisSource]:
    """Return each Redis that is declared for databases of counters, once. Connects to nothing."""
    # The databases that hold counters; none if the settings can't be read.
    used = [] if any(problems(getattr(settings, "COUNTERS", None))) else databases()
    if not any(map(caches, used)):
        return []
    from django_counters.cached.sources import declared_sources

    return declared_sources(*used)


@_reported
def check_tenants() -> Iterator[tuple[str, str]]:
    """E060: what a process or Redis remembers, without tenants set apart.

    It connects to nothing.
    """
    if hasattr(settings, tenants.SETTING):
        try:
            tenants.named_callable()
        except errors.InvalidConfiguration as error:
            yield "E060", str(error)
        return
    message = ""
    if _remembered() or any(one.remembers() for one in features()):
        for alias in connections:
            backend: Any = type(connections[alias])
            if tenants.makes_cursors(backend) and router.allow_migrate_model(alias, Counter):
                message = (
                    f"The backend of the database {alias!r}, {backend.__module__}, makes its own "
                    f"cursors, as backends do that switch tenants, and {tenants.SETTING} isn't set."
                )
    if message:
        yield "E060", message


def _remembered() -> bool:
    """Return whether a counter is declared that a process or Redis remembers something of."""
    if any(problems(getattr(settings, "COUNTERS", None))):
        return False
    declared: list[Any] = list(policies(getattr(settings, "COUNTERS", None)).values())
    fields = (field for model in apps.get_models() for field in model._meta.local_fields)
    declared += [field for field in fields if isinstance(field, CounterField)]
    return any(
        one.recipe.can.outside or one.measure or getattr(one, "intake", None) for one in declared
    )


def check_databases(
    app_configs: Sequence[AppConfig] | None = None,
    databases: Sequence[str] | None = None,
    **kwargs: Any,
) -> list[CheckMessage]:
    """E006, E007, E044, E063, E066, E067, W011, W019, W020: whether databases keep counters."""
    used = [alias for alias in databases or () if router.allow_migrate_model(alias, Counter)]
    looks: tuple[Callable[[str], Iterable[tuple[str, str]]], ...] = (
        *(_database_problems, _partition_problems, _reduced, _other_zones),
        *(_left_behind, _unfolded_entries, _forgotten_in_redis),
    )
    return [
        message_of(code, text, alias)
        for look in looks
        for alias in used
        for code, text in look(alias)
    ]


def _reads(model: type[Model], alias: str) -> bool:
    """Return whether the settings are right, and the table of a model exists: after migrate."""
    connection: Any = connections[alias]
    if connection.vendor not in DIALECTS or any(problems(getattr(settings, "COUNTERS", None))):
        return False
    return model._meta.db_table in connection.introspection.table_names()


def _left_behind(alias: str) -> Iterator[tuple[str, str]]:
    """Yield E063 for what absent apps in contrib have left in a database."""
    removed = {name: feature for name, feature in absent().items() if feature.tables}
    if not removed or connections[alias].vendor not in DIALECTS:
        return
    tables = set(connections[alias].introspection.table_names())
    for name, feature in removed.items():
        if not tables >= {*feature.tables}:
            continue
        left = [*feature.leftovers(alias)]
        if feature.left and (rows := Session(alias).count(*feature.tables)):
            left.append(Leftover(feature.left, rows, "copy what you need of them and delete them"))
        for what, rows, remedy in left:
            yield (
                "E063",
                f"{name!r} isn't installed, and its tables still have {what} ({rows}). To do "
                f"without it, add it again, {remedy}, run manage.py migrate {contrib_label(name)} "
                "zero, and remove it.",
            )


def _unfolded_entries(alias: str) -> Iterator[tuple[str, str]]:
    """Yield E066 if entries of the ledger wait, no namespace has a ledger and no rollup runs."""
    vendor = connections[alias].vendor
    if not _reads(CounterDelta, alias) or "ledger" in DIALECTS[vendor].lacks or ledgers():
        return
    from django_counters.ledger.upkeep import unfolded

    # Values have these entries, and a rollup adds them to the totals with any settings. But without
    # a ledger it is easily forgotten.
    if entries := unfolded(alias):
        yield (
            "E066",
            f"{entries} entries of the ledger wait, no namespace of COUNTERS has a ledger, and no "
            f"rollup has run for {clock.LATE // timedelta(minutes=1)} minutes.",
        )


def _forgotten_in_redis(alias: str) -> Iterator[tuple[str, str]]:
    """Yield E067 for each Redis server whose increments wait, if no counter is cached any more."""
    if not _reads(CounterSource, alias) or alias not in databases() or caches(alias):
        return
    if not CounterSource._base_manager.using(alias).exists():
        return
    from django_counters.metrics.facts import Facts, gather

    for redis in gather(Facts(alias), "redis").parts.get("redis", ()):
        if redis.is_late and not redis.is_foreign:
            yield (
                "E067",
                f"Increments of {redis.counters} counters have waited in Redis {redis.name} for "
                f"over {clock.LATE // timedelta(minutes=1)} minutes, and no counter is cached any "
                "longer.",
            )


def _other_zones(alias: str) -> Iterator[tuple[str, str]]:
    """Yield W020 for declared counters whose periods begin by another zone than ``TIME_ZONE``."""
    if not _reads(CounterMeasure, alias):
        return
    zone = str(timezone.get_default_timezone())
    names = {measure.name for measure in declared_measures(alias)}
    rows = CounterMeasure._base_manager.using(alias).exclude(zone=zone).order_by("name")
    found = [f"{row.name} ({row.zone})" for row in rows if row.name in names]
    if found:
        yield "W020", f"Periods begin by another time zone than {zone}: {', '.join(found)}."


def _reduced(alias: str) -> Iterator[tuple[str, str]]:
    """Yield W019 for the shortcomings of a database beside PostgreSQL."""
    vendor = connections[alias].vendor
    if found := DIALECTS[vendor].reduced if vendor in DIALECTS else ():
        less = f"Less than on PostgreSQL: {' '.join(found)}"
        yield "W019", f"Counters are experimental here. {less}"


def _partition_problems(alias: str) -> Iterator[tuple[str, str]]:
    """Yield W011 if a ledger has too few partitions for the next days."""
    if not _reads(CounterDelta, alias) or not ledgers():
        return
    from django_counters.ledger.upkeep import FEWEST_AHEAD, partitions_ahead, too_few

    ahead = partitions_ahead(alias)
    if too_few(ahead):
        yield (
            "W011",
            f"The ledger has {ahead} partitions ahead, {FEWEST_AHEAD} are needed: "
            "run manage.py counters upkeep partitions.",
        )


def _database_problems(alias: str) -> Iterator[tuple[str, str]]:
    """Yield E006, E007 and E044: why a database cannot keep counters, or some of them."""
    connection: Any = connections[alias]
    if connection.vendor not in DIALECTS:
        known = ", ".join(DIALECTS)
        yield "E006", f"Counters cannot be kept in {connection.vendor}; supported are: {known}."
    if connection.vendor == "sqlite":
        version = connection.Database.sqlite_version_info
        if version < OLDEST_SQLITE:
            present = ".".join(map(str, version))
            yield "E007", f"Counters need SQLite 3.35 or newer; this is {present}."
    if connection.vendor in DIALECTS:
        # The declarations that this kind of database refuses, and what its server lacks.
        dialect, setting = DIALECTS[connection.vendor], getattr(settings, "COUNTERS", None)
        if dialect.lacks and not any(problems(setting)):
            for label, what in _wanted(setting, alias):
                if what in dialect.lacks:
                    yield "E044", f"{label}: {dialect.lacks[what]}"
        yield from (("E044", message) for message in dialect.unfit(connection))


def _wanted(setting: Any, alias: str) -> Iterator[tuple[str, str]]:
    """Yield who declares a feature that some databases lack, and the feature."""
    for name, policy in policies(setting).items():
        asked = {
            "ledger": policy.recipe.can.entries,
            "detour": policy.recipe.can.outside and policy.options["on_redis_down"] == "ledger",
            "history": policy.options.get("history"),
        }
        yield from ((f"COUNTERS[{name!r}]", what) for what, given in asked.items() if given)
    measures = [(f"COUNTERS[{name!r}]", one.measure) for name, one in policies(setting).items()]
    measures += ((str(field), field.measure) for field in columns(alias))
    for label, measure in measures:
        if measure is not None and measure.condition is not None:
            yield f"{label} ({measure.condition.option.upper()})", "conditions"
