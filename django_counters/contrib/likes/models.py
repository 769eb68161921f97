"""Likes: who has counted what."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_counters.features import needs
from django_counters.tables.schema import KeyField, OfCounter

needs("django_counters.contrib.likes")

ACTOR_LENGTH = 64


class CounterActor(OfCounter):
    """One person who has counted one counter. Make and delete it by counting.

    A counter with ``once=True`` has as many rows as it has counted, at every commit. With a
    cool-down, ``created_at`` is when the person was last counted.
    """

    pk = models.CompositePrimaryKey("measure_id", "key", "actor")
    actor = KeyField(_("actor"), max_length=ACTOR_LENGTH)
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("counter actor")
        verbose_name_plural = _("counter actors")
        db_table = "django_counters_counteractor"
        indexes = [
            # All that an actor has counted, and all of it for those who forget a person.
            models.Index(fields=["measure", "actor", "created_at"], name="counters_of_an_actor"),
            # Who has counted something, the last one first.
            models.Index(fields=["measure", "key", "created_at"], name="counters_actors_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.actor}"
