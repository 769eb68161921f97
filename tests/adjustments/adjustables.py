"""One counter of each kind that can be adjusted, and what all of them have to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, models

from django_counters.adjustments.audit import verify_audit
from django_counters.cached.flush import flush
from django_counters.models import (
    Counter,
    CounterAdjustment,
    CounterDelta,
    CounterShard,
    CounterToken,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.upkeep import rollup, verify
from tests.settling import roll_up
from tests.testapp.models import (
    Abstract,
    Article,
    Beacon,
    BonusTrack,
    City,
    Country,
    Device,
    Gadget,
    Lyrics,
    NewsPage,
    Post,
    Product,
    Release,
    Small,
    Song,
    Ticket,
    Tiny,
)

CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
WHO: dict[str, Any] = {"reason": "recount", "actor": "ann"}
KEPT: tuple[type[Any], ...] = (
    Counter,
    CounterDelta,
    CounterShard,
    SlottedCounter,
    CounterToken,
    CounterAdjustment,
)


@dataclass(frozen=True)
class Kind:
    """A kind of counter.

    ``declared``: what the namespace of a named one says. ``make``: makes the record that a counter
    belongs to. ``name``: which one of the record.
    """

    declared: dict[str, Any] | None = None
    make: Callable[[], models.Model] | None = None
    name: str = ""


NAMED: dict[str, Kind] = {
    "exact": Kind({}),
    "sharded": Kind({"STRATEGY": "sharded"}),
    "ledger": Kind({"STRATEGY": "ledger"}),
    "cached": Kind(CACHED),
}
RECORDS: dict[str, Kind] = {
    "exact field": Kind(make=Post.objects.create, name="likes"),
    "exact field of a UUID": Kind(make=Device._base_manager.create, name="events"),
    "inherited field": Kind(make=NewsPage._base_manager.create, name="hits"),
    "32-bit field": Kind(make=Small._base_manager.create, name="hits"),
    "slotted field": Kind(make=Song.objects.create, name="plays"),
    "slotted field of a UUID": Kind(make=Gadget.objects.create, name="beeps"),
    "slotted field of a text": Kind(
        make=lambda: Country.objects.create(code="%s 'ß' {x}"), name="visits"
    ),
    "slotted 32-bit field": Kind(make=Tiny._base_manager.create, name="hits"),
    "inherited slotted field": Kind(make=BonusTrack.objects.create, name="plays"),
    "inherited field of another key": Kind(
        make=lambda: Release.objects.create(code="r-1"), name="plays"
    ),
    "slotted field of a relation": Kind(
        make=lambda: Lyrics.objects.create(song=Song.objects.create()), name="reads"
    ),
    "cached field": Kind(make=Article.objects.create, name="reads"),
    "cached field of a UUID": Kind(make=Beacon.objects.create, name="pings"),
    "cached field of a text": Kind(
        make=lambda: City.objects.create(pk="%s 'ß'\n{x}"), name="trips"
    ),
    "cached 32-bit field": Kind(make=Ticket.objects.create, name="scans"),
    "cached field of a relation": Kind(
        make=lambda: Abstract.objects.create(article=Article.objects.create()), name="opens"
    ),
    "slots": Kind(make=Post.objects.create, name="downloads"),
    "slots of a UUID": Kind(make=Device._base_manager.create, name="downloads"),
    "slots of a text": Kind(make=lambda: Country.objects.create(code="%s 'ß'"), name="downloads"),
    "bounded field": Kind(make=Product._base_manager.create, name="stock"),
}
KINDS = NAMED | RECORDS
COMMITS = pytest.mark.django_db(transaction=True)
# One of each way in which they differ.
SOME = (*NAMED, "32-bit field", "slotted field of a text", "cached field of a UUID", "slots")


def params(names: Iterable[str]) -> list[Any]:
    """Kinds as parameters: where Redis or the ledger has a part, what is counted is committed."""
    return [
        pytest.param(name, marks=COMMITS if "cached" in name or name == "ledger" else ())
        for name in names
    ]


class Adjustable:
    """One counter, whatever its kind."""

    key = "c:%s\\größe"

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.record: Any = kind.make() if kind.make else None

    @contextmanager
    def declared(self) -> Iterator[None]:
        """What the settings say of it."""
        with override_counters(c=self.kind.declared or {}):
            yield

    @property
    def strategy(self) -> str:
        """What it is declared to be."""
        if self.record is None:
            return str((self.kind.declared or {}).get("STRATEGY", "exact"))
        fields = {field.name: field for field in self.record._meta.concrete_fields}
        return str(getattr(fields.get(self.kind.name), "strategy", "slotted"))

    def increment(self, by: int = 1, **options: Any) -> Any:
        """Count in the way of its kind."""
        if self.record is None:
            return Counter.objects.increment(self.key, by, **options)
        if self._is_field:
            return getattr(self.record, self.kind.name).increment(by, **options)
        return SlottedCounter.objects.increment(self.record, self.kind.name, by, **options)

    def value(self) -> int:
        """The exact value."""
        if self.record is None:
            return Counter.objects.value(self.key)
        if self._is_field:
            return int(getattr(self.record, self.kind.name).read().value)
        return SlottedCounter.objects.value(self.record, self.kind.name)

    def adjust(self, **asked: Any) -> CounterAdjustment:
        """Adjust it, by a person and for a reason where none is given."""
        return self._corrected("adjust", WHO | asked)

    def reset(self, **asked: Any) -> CounterAdjustment:
        """Set it to zero in the way of its kind."""
        return self._corrected("reset", WHO | asked)

    def _corrected(self, how: str, asked: dict[str, Any]) -> CounterAdjustment:
        face: Any
        given: tuple[Any, ...]
        if self.record is None:
            face, given = Counter.objects, (self.key,)
        elif self._is_field:
            face, given = getattr(self.record, self.kind.name), ()
        else:
            face, given = SlottedCounter.objects, (self.record, self.kind.name)
        row: CounterAdjustment = getattr(face, how)(*given, **asked)
        return row

    @property
    def _is_field(self) -> bool:
        assert self.record is not None
        return self.kind.name in {field.name for field in self.record._meta.concrete_fields}


def parts(row: CounterAdjustment) -> tuple[int, int, int]:
    """What it was, what it is, and by how much it was changed."""
    return row.before, row.after, row.delta


def upkeep() -> None:
    """Wherever something waits, it becomes part of the totals."""
    if connection.in_atomic_block:
        # Nothing is in Redis or in the ledger: that would need commits.
        rollup()
    else:
        flush()
        roll_up()


def everything(using: str = "default") -> list[Any]:
    """All rows that a change of a counter could write, but for the columns of records."""
    return [sorted(model._base_manager.using(using).values_list()) for model in KEPT]


@contextmanager
def nothing_written(adjustable: Adjustable) -> Iterator[None]:
    """Fail if the block has changed anything."""
    before, value = everything(), adjustable.value()
    yield
    assert (everything(), adjustable.value()) == (before, value)


def assert_sound(using: str = "default") -> None:
    """The adjustments are a chain, and the ledger agrees with its entries."""
    numbers = list(
        CounterAdjustment.objects.using(using).order_by("number").values_list("number", flat=True)
    )
    assert numbers == list(range(1, len(numbers) + 1))
    report = verify_audit(using)
    assert (report.checked, report.flaws) == (len(numbers), [])
    assert verify(using).drifts == []
