"""How far sources that are read in order are in the totals."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.batch import SOURCE_LENGTH
from django_counters.tables.counter import KeyField

PART_LENGTH = 255
POSITION_LENGTH = 255


class CounterPosition(models.Model):
    """How far one part of a source is in the totals, moved in the transaction that adds to them.

    Pages that land in order need no row each: the process that moves the position from the begin of
    the page to its end has landed it, and no other one. ``position`` is a text of the source; it is
    empty before the first page. ``timeline`` is the history that it means something in: a position
    of another one does not move. Some rows stay empty: they say when something was done.
    """

    pk = models.CompositePrimaryKey("source", "part")
    source = KeyField(_("source"), max_length=SOURCE_LENGTH)
    part = KeyField(_("part"), max_length=PART_LENGTH)
    position = models.CharField(_("position"), max_length=POSITION_LENGTH, blank=True)
    timeline = models.CharField(_("timeline"), max_length=POSITION_LENGTH, blank=True)
    moved_at = models.DateTimeField(_("moved at"))

    class Meta:
        verbose_name = _("counter position")
        verbose_name_plural = _("counter positions")

    def __str__(self) -> str:
        return f"{self.source} [{self.part}] {self.position}"
