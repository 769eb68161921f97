"""The app of distinct actors, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.uniques.options import MEMBER, SETS_TABLE, UNIQUE
from django_counters.features import Feature

if TYPE_CHECKING:
    from django_counters.features import Finding

_FOLDER = __name__.rpartition(".")[0]


class Uniques(Feature):
    """The option, route and admin section of distinct actors."""

    kinds = (MEMBER,)
    options = (UNIQUE,)
    tables = (MEMBER.table, SETS_TABLE)
    left = "members and sets"
    rest = f"{_FOLDER}.rest"
    panel = f"{_FOLDER}.admin.PeoplePanel"

    def hints(self) -> Mapping[str, str]:
        return {
            "E029": 'UNIQUE is a list of periods such as ["day"].',
            "E030": 'unique is a list of periods such as ["day"].',
        }

    def rollup(self, using: str, *, dry_run: bool) -> Mapping[str, int]:
        """Put members into their sets."""
        from django_counters.contrib.uniques.upkeep import fold

        return {"members": fold(using, dry_run=dry_run)}

    def forget_actor(
        self, actor: str, using: str, *, keep_counts: bool, dry_run: bool
    ) -> Mapping[str, int]:
        """Take the actor out of sets. Flush first: increments in Redis aren't in a set yet."""
        from django_counters.contrib.uniques.upkeep import forget_member

        return {"sets": forget_member(actor, using, keep_counts=keep_counts, dry_run=dry_run)}

    def findings(self, using: str) -> Iterator[Finding]:
        from django_counters.contrib.uniques.upkeep import pending

        return pending(using)


class UniquesConfig(AppConfig):
    """The app."""

    name = "django_counters.contrib.uniques"
    label = "django_counters_uniques"
    verbose_name = _("Distinct actors")
    default_auto_field = "django.db.models.BigAutoField"
    counters_feature = Uniques()
