"""The job of the app, and what reads its counters."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.dispatch import Signal
from rest_framework.exceptions import PermissionDenied

from django_counters.features import Done
from django_counters.models import Counter
from tests.extension.models import Mood

#: Sent after somebody was cheered up. Arguments: ``mood``.
cheered = Signal()


def charge(request: Any, namespace: str, access: Any, changes: int) -> None:
    """Refuse changes of more than one party at once.

    Raises:
        PermissionDenied: there are several.
    """
    if namespace == "parties" and changes > 1:
        raise PermissionDenied("One party at a time.")


def cheer(using: str) -> Done:
    """Cheer everybody up who is sad."""
    moods = Mood.objects.using(using)
    if moods.filter(text="beyond").exists():
        return Done("", {"cheered": 0}, ["Somebody is beyond all moods."])
    number = moods.filter(text="sad").update(text="calm")
    cheered.send(Mood, mood="calm")
    return Done(f"{number} cheered up", {"cheered": number})


@dataclass(frozen=True)
class Doubled:
    """Reads counters that others count as often as we do."""

    using: str

    def value(self, key: Hashable) -> int:
        return self.values([key]).get(key, 0)

    def values(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        rows = Counter.objects.using(self.using).filter(key__in=list(keys))
        return {row.key: 2 * row.value for row in rows}


class Doubling:
    """Makes readers that others share. It is falsy, as an app's may be."""

    def __call__(self, policy: Any, using: str) -> Doubled:
        return Doubled(using)

    def __len__(self) -> int:
        return 0
