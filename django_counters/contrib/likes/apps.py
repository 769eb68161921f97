"""The app of likes, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.likes.options import ONCE
from django_counters.features import Drift, Feature


class Likes(Feature):
    """The option ``once``, and the rows of actors."""

    options = (ONCE,)
    tables = ("django_counters_counteractor",)
    left = "rows of actors"

    def hints(self) -> Mapping[str, str]:
        return {
            "E031": 'Set ONCE to True, or to a time such as "30m". Use STRATEGY "exact" or '
            '"sharded", and no FLOOR but 0.',
            "E032": 'Set once to True, or to a time such as "30m". Use an exact or a slotted field '
            "that starts at 0.",
        }

    def functions(self, vendor: str) -> Sequence[str]:
        from django_counters.contrib.likes.sql import FUNCTIONS

        return FUNCTIONS if vendor == "postgresql" else ()

    def forget_actor(
        self, actor: str, using: str, *, keep_counts: bool, dry_run: bool
    ) -> Mapping[str, int]:
        from django_counters.contrib.likes.upkeep import forget_person

        return forget_person(actor, using, keep_counts=keep_counts, dry_run=dry_run)

    def drifts(self, using: str) -> Iterator[Drift]:
        from django_counters.contrib.likes.upkeep import drifts

        return drifts(using)


class LikesConfig(AppConfig):
    """The app."""

    name = "django_counters.contrib.likes"
    label = "django_counters_likes"
    verbose_name = _("Likes")
    counters_feature = Likes()
