"""The Django app."""

from __future__ import annotations

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
        post_migrate.connect(install_functions, sender=self)


def install_functions(using: str, **_: object) -> None:
    """Receives ``post_migrate``: puts the functions of a database beside the tables."""
    from django_counters.kinds.registry import registry
    from django_counters.models import Counter
    from django_counters.stores.sql.dialects import DIALECTS

    vendor = connections[using].vendor
    if vendor in DIALECTS and router.allow_migrate_model(using, Counter):
        DIALECTS[vendor].install(using)
    # Content types may have new numbers now.
    registry.forget_strategies()
