"""The intake of the app: small changes wait in this process until it ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django_counters.models import Counter
from django_counters.types import Delta, Unknown
from django_counters.write.changes import Change, Ref

WAITS = "it waits in a queue"
waiting: dict[str, int] = {}


@dataclass(frozen=True)
class Queue:
    """Keeps changes by less than 100."""

    reason: str = "others don't see the queue"
    to: str | None = None

    def keep(self, change: Change) -> Unknown | None:
        return None if change.immediately else self.keep_delta(change.ref, change.delta)

    def akeep(self, change: Change) -> Unknown | None:
        return self.keep(change)

    def keep_delta(self, ref: Ref, delta: Delta) -> Unknown | None:
        if delta.by >= 100:
            return None
        waiting[ref.text] = waiting.get(ref.text, 0) + delta.by
        return Unknown(ref.text, WAITS)

    def __len__(self) -> int:
        # An intake may be falsy.
        return len(waiting)

    def pending(self, keys: Collection[str], using: str) -> Waiting | None:
        return Waiting({key: waiting.get(key, 0) for key in keys}) if waiting else None


@dataclass(frozen=True)
class Waiting:
    """What waited before a read."""

    amounts: Mapping[str, int]

    def after(self) -> tuple[Mapping[str, int], Collection[str]]:
        again = [key for key, by in self.amounts.items() if waiting.get(key, 0) != by]
        return {key: by for key, by in self.amounts.items() if key not in again}, again


def send() -> None:
    """Count all that waits."""
    while waiting:
        key, by = waiting.popitem()
        Counter.objects.increment(key, by, immediately=True)
