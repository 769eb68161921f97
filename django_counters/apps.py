"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.utils.translation import gettext_lazy as _


class CountersConfig(AppConfig):
    """Binds the manager, registers the checks, listens for settings."""

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
