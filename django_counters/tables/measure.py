"""The counting by period and by tag, and which values its tags have."""

from __future__ import annotations

import secrets

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.schema import KeyField

NAME_LENGTH = 255
SECRET_LENGTH = 32


def new_secret() -> bytes:
    """A key for hashes. It is random: a key made of SECRET_KEY would change with that."""
    return secrets.token_bytes(SECRET_LENGTH)


class CounterMeasure(models.Model):
    """A namespace or a field with ``per``. Its cells are read by what this row says.

    ``zone`` is the time zone whose clocks begin its periods: that of the settings when the row was
    made. ``tags`` are the names of its tags in the order in which cells have their values: a new
    one comes last, and none is taken out. ``periods``: since when each is counted by, as an ISO
    moment; None for those that were declared first. ``secret`` is the key of the hashes that stand
    for actors, and stays: with another one, each of them would be counted twice.
    """

    id = models.AutoField(primary_key=True)
    name = KeyField(_("name"), max_length=NAME_LENGTH, unique=True)
    zone = models.CharField(_("time zone"), max_length=64)
    tags = models.JSONField(_("tags"), default=list)
    periods = models.JSONField(_("periods"), default=dict)
    secret = models.BinaryField(_("secret"), default=new_secret, editable=False)
    made_at = models.DateTimeField(_("made at"), auto_now_add=True)

    class Meta:
        verbose_name = _("counter measure")
        verbose_name_plural = _("counter measures")

    def __str__(self) -> str:
        return str(self.name)
