"""The actors of a period: members one by one, until a rollup puts them into a set."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.series.options import TAGS_LENGTH
from django_counters.contrib.uniques.options import MEMBER, SETS_TABLE
from django_counters.features import needs
from django_counters.measure import Kind
from django_counters.tables.schema import KeyField

needs("django_counters.contrib.uniques")
# It makes the members of a change.
needs("django_counters.contrib.series")

# Without these apps it cannot be imported, and the error would name one of them alone.
from django_counters.contrib.series.models import OfPeriod  # noqa: E402


class _OfSet(OfPeriod):
    """A part of the actors of one counter, one period, and certain tags."""

    of_kind: ClassVar[Kind] = MEMBER
    tags = KeyField(_("tags"), max_length=TAGS_LENGTH, default="", blank=True)

    class Meta:
        abstract = True


class CounterMember(_OfSet):
    """An actor who isn't in a set yet. Read them with `count`.

    A member is a keyed hash of 52 bits: without the measure's key it doesn't identify an actor.
    """

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "member")
    member = models.BigIntegerField(_("member"))

    class Meta:
        verbose_name = _("counter member")
        verbose_name_plural = _("counter members")
        db_table = MEMBER.table

    def __str__(self) -> str:
        return f"{self.key} {self.start} {self.member}"

    @classmethod
    def before_pruning(cls, using: str) -> None:
        """Put members into sets: members have no index by the start of their period."""
        # By its name: the upkeep imports these models.
        import_string("django_counters.contrib.uniques.upkeep.fold")(using)


class CounterUnique(_OfSet):
    """The set of actors of a period, as a `Sketch`."""

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags")
    kind = models.CharField(_("kind"), max_length=1)
    body = models.BinaryField(_("body"))

    class Meta:
        verbose_name = _("counter unique")
        verbose_name_plural = _("counter uniques")
        db_table = SETS_TABLE
        indexes = [
            # To prune. Members need none: rollups and pruning put them into sets.
            models.Index(fields=["measure", "period", "start"], name="counters_uniques_by_start"),
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.start}"
