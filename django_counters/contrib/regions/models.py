"""The table of regions' entries in this database."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.features import needs
from django_counters.tables.schema import KeyField
from django_counters.types import KEY_LENGTH

needs("django_counters.contrib.regions")

REGION_LENGTH = 60


class CounterRegion(models.Model):
    """One region's count of a counter. Only that region changes it; others copy it.

    ``version`` is the region's clock when the value was published. An ``incarnation`` ends when the
    region is restored from a backup. ``base`` is only set for this region's present incarnation:
    the part of the counter that earlier incarnations have counted.
    """

    pk = models.CompositePrimaryKey("key", "region", "incarnation")
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    region = KeyField(_("region"), max_length=REGION_LENGTH)
    incarnation = models.IntegerField(_("incarnation"))
    value = models.BigIntegerField(_("value"))
    version = models.BigIntegerField(_("version"))
    base = models.BigIntegerField(_("base"), null=True, blank=True, default=None)

    class Meta:
        db_table = "django_counters_counterregion"
        verbose_name = _("counter region")
        verbose_name_plural = _("counter regions")
        indexes = (
            models.Index(
                fields=["region", "incarnation", "version"], name="counters_regions_since"
            ),
        )

    def __str__(self) -> str:
        return f"{self.key} {self.region} {self.value}"
