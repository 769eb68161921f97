"""The app of holds, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.holds.options import OPTIONS, can_hold
from django_counters.features import Drift, Feature, Job, Leftover

if TYPE_CHECKING:
    from django_counters.fields.columns import BaseCounterField

_FOLDER = __name__.rpartition(".")[0]


class Holds(Feature):
    """The options, jobs, routes and admin panel of holds."""

    options = (OPTIONS,)
    tables = ("django_counters_counterhold",)
    actions: Mapping[str, str] = {"hold": "django_counters_holds.hold_counter"}
    rest = f"{_FOLDER}.rest"
    panel = f"{_FOLDER}.admin.HoldsPanel"

    def functions(self, vendor: str) -> Sequence[str]:
        from django_counters.contrib.holds.sql import FUNCTION

        return [FUNCTION] if vendor == "postgresql" else []

    def jobs(self) -> Sequence[Job]:
        return [Job("expire", 60, f"{_FOLDER}.upkeep.expire", _("release expired holds"))]

    def prune(self, using: str) -> Mapping[str, int]:
        from django_counters.contrib.holds.upkeep import prune_holds

        return {"holds": prune_holds(using)}

    def keeps_rows(self, field: BaseCounterField) -> bool:
        """Return whether open holds of a deleted record could come back to another one.

        With a signal, Django loads all rows that a queryset deletes. A field without a floor rarely
        has holds, so it only gets the signal if another record can get the same key.
        """
        from django.db.models import AutoField

        parents = {link: parent for parent, link in field.model._meta.parents.items()}
        key: Any = field.model._meta.pk
        while key in parents:
            key = parents[key]._meta.pk
        is_reused = not isinstance(key, AutoField)
        return can_hold(field.recipe.can) and (field.bounds.floor is not None or is_reused)

    def forget(self, owner: str, keys: Sequence[str], using: str) -> None:
        from django_counters.contrib.holds.upkeep import end_holds

        end_holds(owner, keys, using)

    def forget_actor(
        self,
        actor: str,
        using: str,
        *,
        keep_counts: bool,  # noqa: ARG002
        dry_run: bool,
    ) -> Mapping[str, int]:
        """Clear the actor's holds. Open holds stay: they count in total, and for no actor."""
        from django_counters.contrib.holds.upkeep import forget_holder

        return {"holds": forget_holder(actor, using, dry_run=dry_run)}

    def leftovers(self, using: str) -> Iterator[Leftover]:
        """Return active holds, and holds that name an actor: ``forget()`` reaches neither."""
        from django_counters.contrib.holds.sql import SqlHolds

        active, named = SqlHolds(using).left()
        if active:
            yield Leftover("open holds", active, "commit or release them")
        if named:
            yield Leftover("holds with an actor", named, "copy what you need of them")

    def drifts(self, using: str) -> Iterator[Drift]:
        from django_counters.contrib.holds.upkeep import overdue

        return overdue(using)


class HoldsConfig(AppConfig):
    """The app."""

    name = "django_counters.contrib.holds"
    label = "django_counters_holds"
    verbose_name = _("Holds")
    counters_feature = Holds()
