"""How far the ledger is rolled up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters import clock

TOKEN_WINDOW = timedelta(hours=48)


def beginning() -> datetime:
    """Before all that is counted."""
    return clock.shown(datetime(1970, 1, 1, tzinfo=UTC))


class CounterHorizon(models.Model):
    """One row: entries before the horizon are in the totals, all others are the tail.

    An entry belongs to the tail if its ``xid`` is not below the horizon, and its ``seq`` is above
    the fence, which only a rebase moves.
    """

    horizon = models.BigIntegerField(_("horizon"), default=0)
    fence = models.BigIntegerField(_("fence"), default=0)
    # The server whose transactions are numbered so; NULL where it does not say who it is.
    cluster = models.BigIntegerField(_("cluster"), null=True, blank=True)
    # Entries committed before are in the totals.
    as_of = models.DateTimeField(_("as of"), default=beginning)
    # No entry of the tail has a token of before.
    tail_since = models.DateTimeField(_("tail since"), default=beginning)
    # What `as_of` becomes as soon as the horizon reaches the mark.
    mark_xid = models.BigIntegerField(_("mark"), default=0)
    mark_at = models.DateTimeField(_("time of the mark"), default=beginning)
    rolled_up_at = models.DateTimeField(_("rolled up at"), default=beginning)
    token_window = models.DurationField(_("window of tokens"), default=TOKEN_WINDOW)

    class Meta:
        verbose_name = _("counter horizon")
        verbose_name_plural = _("counter horizons")

    def __str__(self) -> str:
        return str(self.horizon)


def horizon_of(using: str) -> CounterHorizon:
    """Return the state of the ledger of a database; its beginning if there is no row yet."""
    return CounterHorizon._base_manager.using(using).first() or CounterHorizon()
