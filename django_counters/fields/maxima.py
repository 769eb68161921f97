"""The counter of a record that is raised to a number."""

from __future__ import annotations

from typing import Any

from django.db import models

from django_counters.twins import alters_data, twin
from django_counters.values import Result
from django_counters.write import maximum


class CountingMaxima:
    """What keeps the largest number that was seen of one instance."""

    _field: Any  # a CounterField; said so, its descriptor would hide it from type checkers
    _instance: models.Model

    @alters_data
    def maximum(self, number: int, *, using: str | None = None) -> Result:
        """Set the row to ``number`` if its value is smaller; see `CounterManager.maximum`.

        The value afterwards is set on the instance, where it is known.

        Raises:
            UnsavedInstance, RecordMissing: there is no row.
            UnsupportedMaximum: the field is slotted, is counted by period, or counts once for each
                actor.
            CeilingExceeded, CounterOverflow, InvalidDelta, Contention: as there.
        """
        field, instance = self._field, self._instance
        result = maximum.maximum(field.ref(instance, using), number)
        if result.value is not None:
            instance.__dict__[field.attname] = result.value
        return result

    amaximum = twin(maximum)
