"""The Django app."""

from __future__ import annotations

from contextlib import suppress

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.db import connections, router
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class CountersConfig(AppConfig):
    """Binds the managers, registers the checks, listens for settings."""

    name = "django_counters"
    label = "django_counters"
    verbose_name = _("Counters")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_counters import checks, managers
        from django_counters.kinds.registry import registry

        managers.bind()
        checks.register()
        setting_changed.connect(registry.forget_policies)
        post_migrate.connect(prepare_database, sender=self)


def prepare_database(using: str, **_: object) -> None:
    """Receives ``post_migrate``: makes what belongs to the tables and Django does not know of."""
    from django_counters.exceptions import LedgerFenced
    from django_counters.kinds.registry import registry
    from django_counters.models import Counter, CounterDelta
    from django_counters.stores.sql.dialects import DIALECTS
    from django_counters.stores.sql.guard import make as make_guard
    from django_counters.stores.sql.horizon import SqlHorizon
    from django_counters.stores.sql.making import remake_plain_table
    from django_counters.upkeep.partitions import make_ahead

    vendor = connections[using].vendor
    if vendor in DIALECTS and router.allow_migrate_model(using, Counter):
        DIALECTS[vendor].install(using)
        make_guard(using)
        if CounterDelta._meta.db_table in connections[using].introspection.table_names():
            remake_plain_table(using)
            with suppress(LedgerFenced):
                # A rollup says so, too, and more than a migration can.
                SqlHorizon(using).found()
            make_ahead(using)
    # Content types may have new numbers now.
    registry.forget_strategies()
