"""The Django app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.core.signals import setting_changed
from django.db import connections, router
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy as _

from django_counters.features import absent, charges, contrib_label, features
from django_counters.options import written_namespaces

if TYPE_CHECKING:
    from django.db.migrations import Migration

    from django_counters.strategies.declaring import Declaration

# How the engines of a vendor end.
_ENGINES = {
    "postgresql": ("postgresql", "postgis"),
    "mysql": ("mysql",),
    "sqlite": ("sqlite3", "spatialite"),
}


# The functions of `checks`, with their tags.
_CHECKS = {
    "check_setting": (),
    "check_upkeep": (),
    "check_apps": (),
    "check_routers": (),
    "check_names": (),
    "check_tenants": (),
    "check_caches": (Tags.caches,),
    "check_databases": (Tags.database,),
}
_CHECKS_OF_DEPLOYMENT = ("check_caches_in_use", "check_servers", "check_cached_as_exact")


class CountersConfig(AppConfig):
    """Registers the checks, listens for settings."""

    name = "django_counters"
    label = "django_counters"
    verbose_name = _("Counters")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_counters.fields.columns import forget_recipes
        from django_counters.fields.receivers import guard_columns
        from django_counters.registry import registry

        for name, tags in _CHECKS.items():
            register(_check(name), *tags)
        for name in _CHECKS_OF_DEPLOYMENT:
            register(_check(name), Tags.caches, deploy=True)
        import_first()
        setting_changed.connect(registry.forget_policies)
        setting_changed.connect(forget_recipes)
        pre_migrate.connect(guard_columns, sender=self)
        pre_migrate.connect(keep_what_others_need, sender=self)
        post_migrate.connect(prepare_database, sender=self)


@cache
def _check(name: str) -> Callable[..., list[CheckMessage]]:
    """Return a system check that is imported when it runs: a server that counts needs none.

    For a name it's always the same function, because `ready` may run again: Django keeps a set.
    """

    def check(**options: Any) -> list[CheckMessage]:
        function = getattr(import_module("django_counters.checks"), name)
        messages: list[CheckMessage] = function(**options)
        return messages

    return check


def import_first() -> None:
    """Import what counting needs, which the core and other apps can do without.

    A child that is forked while another thread imports it would wait for that thread for ever.
    """
    from django_counters.stores.sql.dialects import DIALECTS

    engines = [str(database.get("ENGINE")) for database in settings.DATABASES.values()]
    vendors = {one for one, ends in _ENGINES.items() for e in engines if e.endswith(ends)}
    if not all(engine.endswith(sum(_ENGINES.values(), ())) for engine in engines):
        # An engine of another package is for one of them.
        vendors = {*_ENGINES}
    dialects = [DIALECTS[vendor] for vendor in sorted(vendors)]
    names = [name for feature in features() for name in feature.imported_first()]
    if find_spec("psycopg") and "postgresql" in vendors:
        names.append("django_counters.stores.sql.wire")
    declared = _declared_strategies()
    outside = any(one.can.outside for one in declared)
    if outside or any(one.can.entries for one in declared):
        # While Redis is away, cached counters go to the ledger.
        names += ["django_counters.ledger.strategy"]
        names += [dialect.ledger.rpartition(".")[0] for dialect in dialects]
    if find_spec("redis") and outside:
        names += ["django_counters.redis.aclient", "django_counters.cached.pending"]
    if apps.is_installed("rest_framework"):
        names.append("django_counters.rest.ready")
        charges()
    for name in names:
        # By their names: most need an extra.
        import_module(name)


def _declared_strategies() -> list[Declaration]:
    """Import and return the strategies that namespaces and fields name, rightly or not."""
    from django_counters.conf import declared_strategy

    fields = (field for model in apps.get_models() for field in model._meta.local_fields)
    named = {str(getattr(field, "strategy", "")) for field in fields}
    named |= {str(options.get("STRATEGY")) for options in written_namespaces()}
    return [one for one in map(declared_strategy, sorted(named)) if one]


def keep_what_others_need(
    using: str, plan: Sequence[tuple[Migration, bool]] = (), **_: object
) -> None:
    """Receive ``pre_migrate``: refuse to unapply migrations on which those of an absent app depend.

    Django sees the migrations of installed apps only. It would go on, and refuse each ``migrate``
    after the app is added again.

    Raises:
        CommandError: names the app and the remedy.
    """
    from django.core.management.base import CommandError
    from django.db.migrations.recorder import MigrationRecorder

    if not any(back and migration.app_label == "django_counters" for migration, back in plan):
        return
    applied = {label for label, _name in MigrationRecorder(connections[using]).applied_migrations()}
    for name in absent():
        label = contrib_label(name)
        if label in applied:
            raise CommandError(
                f"{name!r} isn't installed, but its migrations are applied and depend on these. "
                f"Add it to INSTALLED_APPS, run manage.py migrate {label} zero, and remove it."
            )


def prepare_database(using: str, **_: object) -> None:
    """Receives ``post_migrate``: makes what belongs to the tables and Django does not know of."""
    from django_counters.adjustments.guard import make as make_guard
    from django_counters.errors import LedgerFenced
    from django_counters.ledger.horizon import SqlHorizon
    from django_counters.ledger.partitions import remake_plain_table
    from django_counters.ledger.upkeep import make_ahead
    from django_counters.models import Counter, CounterDelta, CounterMeasure
    from django_counters.registry import registry
    from django_counters.stores.sql.dialects import DIALECTS
    from django_counters.upkeep import fold_renamed, make_measures

    vendor = connections[using].vendor
    if vendor in DIALECTS and router.allow_migrate_model(using, Counter):
        DIALECTS[vendor].install(using)
        make_guard(using)
        if CounterDelta._meta.db_table in connections[using].introspection.table_names():
            remake_plain_table(using)
            if "ledger" not in DIALECTS[vendor].lacks:
                with suppress(LedgerFenced):
                    # A rollup says so, too, and more than a migration can.
                    SqlHorizon(using).found()
            make_ahead(using)
            fold_renamed(using)
        if CounterMeasure._meta.db_table in connections[using].introspection.table_names():
            make_measures(using)
    # Content types may have new numbers now.
    registry.forget_strategies()
