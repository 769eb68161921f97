"""Which actors were seen in a period: those that wait one by one, and the sets of all others."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.measure import MEMBER, TAGS_LENGTH, Kind
from django_counters.tables.counter import KeyField
from django_counters.tables.measured import OfPeriod


class _OfSet(OfPeriod):
    """The known details of one counter, one period, one set of tags."""

    of_kind: ClassVar[Kind] = MEMBER
    tags = KeyField(_("tags"), max_length=TAGS_LENGTH, default="", blank=True)

    class Meta:
        abstract = True


class CounterMember(_OfSet):
    """An actor who waits to be put into a set. Read them with ``series``.

    A member is a keyed hash of 52 bits: it does not show who it is without the key of the measure.
    """

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags", "member")
    member = models.BigIntegerField(_("member"))

    class Meta:
        verbose_name = _("counter member")
        verbose_name_plural = _("counter members")

    def __str__(self) -> str:
        return f"{self.key} {self.start} {self.member}"


class CounterUnique(_OfSet):
    """The set of actors of a period, as a `django_counters.sketches.Sketch`."""

    pk = models.CompositePrimaryKey("measure_id", "key", "period", "start", "tags")
    kind = models.CharField(_("kind"), max_length=1)
    body = models.BinaryField(_("body"))

    class Meta:
        verbose_name = _("counter unique")
        verbose_name_plural = _("counter uniques")
        indexes = [
            # To prune. Members need none: rollups and pruning put them into sets.
            models.Index(fields=["measure", "period", "start"], name="counters_uniques_by_start"),
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.start}"
