"""Recorded totals: one row for each counter and period in which it changed."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.features import needs
from django_counters.tables.schema import KeyField
from django_counters.types import KEY_LENGTH

needs("django_counters.contrib.series")


class CounterSample(models.Model):
    """The total of a named counter at the end of a period, for namespaces with ``HISTORY``.

    ``moment`` is when the period begins, ``value`` the last total that was seen in it. The row of
    the present period follows the total until the period is over. A period without a row has the
    value of the row before it.
    """

    pk = models.CompositePrimaryKey("key", "moment")
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    moment = models.DateTimeField(_("moment"), db_index=True)
    value = models.BigIntegerField(_("value"))

    class Meta:
        db_table = "django_counters_countersample"
        verbose_name = _("counter sample")
        verbose_name_plural = _("counter samples")

    def __str__(self) -> str:
        return f"{self.key} {self.value}"
