"""The ledger: one entry for each change, never altered, dropped as whole partitions."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.tables.counter import KeyField
from django_counters.types import KEY_LENGTH


class DeltaColumns(models.Model):
    """The columns of a `CounterDelta`."""

    class Kind(models.IntegerChoices):
        """The kind of an entry: an increment, or a correction."""

        INCREMENT = 0, _("increment")
        ADJUSTMENT = 1, _("adjustment")

    pk = models.CompositePrimaryKey("token", "created_at")
    token = models.UUIDField(_("token"))
    created_at = models.DateTimeField(_("created at"))
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    delta = models.BigIntegerField(_("delta"))
    kind = models.SmallIntegerField(_("kind"), choices=Kind.choices, default=Kind.INCREMENT)
    # The transaction that wrote the entry: the rollup goes by it.
    xid = models.BigIntegerField(_("transaction"))
    # The order in which entries were written: a rebase goes by it.
    seq = models.BigIntegerField(_("sequence number"))

    class Meta:
        abstract = True
        verbose_name = _("counter entry")
        verbose_name_plural = _("counter entries")

    def __str__(self) -> str:
        return f"{self.key} {self.delta:+}"

    def save(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Entries are appended, by `DeltaManager.append`."""
        raise TypeError("Entries of the ledger are written by CounterDelta.objects.append().")

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Entries stay. A wrong one is corrected by another one."""
        raise TypeError("Entries of the ledger stay; append one that corrects it.")
