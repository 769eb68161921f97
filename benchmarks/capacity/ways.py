"""The operations whose costs are measured; each is counted at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle, islice
from typing import Any

from benchmarks.capacity.meter import Meter, Spent
from benchmarks.cases.cached import client, prefix
from benchmarks.harness import expect
from benchmarks.inspection import execute, let_others_end
from django_counters.models import Counter, CounterDelta
from django_counters.stores.redis.keys import SLOTS, slot_of
from django_counters.upkeep.flush import flush
from django_counters.upkeep.rollup import rollup

CALLS = 2000  # of a slice
KEYS = 100  # counters of a way, and of a batch
ENTRIES = 1000  # of a batch of the ledger
IN_BLOCK = 10  # increments of one block of the collector
ROWS = 20_000  # of a slice of upkeep
_numbers = count()

Slice = Callable[[Meter, float], Spent]


@dataclass(frozen=True)
class Way:
    """One operation.

    Attributes:
        name: what plans call it.
        words: what it is, for people.
        slice: does it for a while; the second argument is the share of the usual number.
        stored: how many of them are stored, of all slices together.
    """

    name: str
    words: str
    slice: Slice
    stored: Callable[[], int]


def ways() -> list[Way]:
    """All of them; Django is set up."""
    return [*_singles(), *_batches(), *_asking(), _bare(), *_upkeep()]


def _singles() -> list[Way]:
    spaces = {"exact": "views", "sharded": "spread", "ledger": "orders", "cached": "pages"}
    return [
        _called(name, f"increment, {name}", _keys(space, f"{name}-one"), _each)
        for name, space in spaces.items()
    ]


def _batches() -> list[Way]:
    part = [key for key in _rows("pages", "part") if slot_of(key) == 0][: KEYS // SLOTS]
    return [
        _called(
            "collector",
            f"increment in a collector, {IN_BLOCK} of one exact counter",
            _keys("views", "block"),
            _collected,
        ),
        _called("exact-many", f"increment_many of {KEYS}, exact", _keys("views", "many"), _many),
        _called(
            "ledger-many", f"append_many of {ENTRIES:,}, ledger", _keys("orders", "many"), _appended
        ),
        _called("cached-many", f"increment_many of {KEYS}, cached", _keys("pages", "many"), _many),
        _called(
            "cached-part",
            f"increment_many of {len(part)} of one slot, cached: its part of {KEYS} in a cluster",
            part,
            _many,
        ),
    ]


def _keys(space: str, what: str) -> list[str]:
    return _rows(space, what)[:KEYS]


def _called(
    name: str, words: str, keys: Sequence[str], calls: Callable[[Sequence[str], float], int]
) -> Way:
    def run(meter: Meter, share: float) -> Spent:
        # Redis knows a total for a minute: what asks for it again is another way, below.
        Counter.objects.values_of(keys, consistency="cached", max_age=0)
        return meter.around(lambda: calls(keys, share))

    return Way(name, words, run, lambda: sum(Counter.objects.values_of(keys).values()))


def _asking() -> list[Way]:
    """What costs a query: Redis does not know the total to which it has to add what waits."""
    one, many = _rows("pages", "first"), _rows("pages", "firsts")
    words = "whose totals Redis does not know"
    return [
        Way("cached-first", f"increment, cached, {words}", *_asked(one, 1)),
        Way("cached-many-first", f"increment_many of {KEYS}, cached, {words}", *_asked(many, KEYS)),
    ]


def _asked(keys: Sequence[str], size: int) -> tuple[Slice, Callable[[], int]]:
    """Each call counts counters that have not been counted before."""
    unused = iter(keys)

    def calls(number: int) -> int:
        for _ in range(number):
            Counter.objects.increment_many(dict.fromkeys(islice(unused, size), 1))
        return number * size

    def run(meter: Meter, share: float) -> Spent:
        return meter.around(lambda: calls(round(ROWS * share) // 10 // size))

    return run, lambda: sum(Counter.objects.values_of(keys).values())


def _each(keys: Sequence[str], share: float) -> int:
    calls = round(CALLS * share)
    for key in islice(cycle(keys), calls):
        Counter.objects.increment(key)
    return calls


def _many(keys: Sequence[str], share: float) -> int:
    deltas, calls = dict.fromkeys(keys, 1), round(CALLS * share) // 5
    for _ in range(calls):
        Counter.objects.increment_many(deltas)
    return calls * len(keys)


def _collected(keys: Sequence[str], share: float) -> int:
    calls = round(CALLS * share) // 2
    for key in islice(cycle(keys), calls):
        with Counter.objects.collect():
            for _ in range(IN_BLOCK):
                Counter.objects.increment(key)
    return calls * IN_BLOCK


def _appended(keys: Sequence[str], share: float) -> int:
    entries, calls = [(key, 1) for key in islice(cycle(keys), ENTRIES)], round(CALLS * share) // 50
    for _ in range(calls):
        CounterDelta.objects.append_many(entries)
    return calls * ENTRIES


def _bare() -> Way:
    """The least that counts in Redis, to see what the rest costs."""
    key = f"{prefix()}:cost-bare{next(_numbers)}"

    def counted(server: Any, share: float) -> int:
        calls = round(CALLS * share)
        for _ in range(calls):
            server.incrby(key, 1)
        return calls

    def run(meter: Meter, share: float) -> Spent:
        with client() as server:
            server.ping()
            return meter.around(partial(counted, server, share))

    def stored() -> int:
        with client() as server:
            return int(server.get(key))

    return Way("incrby", "for comparison: INCRBY of redis-py", run, stored)


def _upkeep() -> list[Way]:
    keys, folded = _rows("pages", "warm"), _rows("orders", "folded")[:ENTRIES]
    flushed = Way("flush", "counter of a flush", partial(_flushed, keys), partial(_landed, keys))
    words = f"entry of a rollup, {ROWS // ENTRIES} for each of {ENTRIES:,} counters"
    return [flushed, Way("rollup", words, partial(_folded, folded), partial(_landed, folded))]


def after_checkpoint() -> list[Way]:
    """What begins with a checkpoint: whatever comes next in the same server has to pay for it."""
    keys = _rows("pages", "cold")

    def run(meter: Meter, share: float) -> Spent:
        return _flushed(keys, meter, share, first="CHECKPOINT")

    words = "counter of a flush, the first after a checkpoint"
    return [Way("flush-cold", words, run, partial(_landed, keys))]


def _rows(space: str, what: str) -> list[str]:
    """Counters that nobody else has, not even who measures a second time."""
    case = next(_numbers)
    return [f"{space}:cost-{what}{case}-{number}" for number in range(ROWS)]


def _flushed(keys: Sequence[str], meter: Meter, share: float, first: str = "SELECT 1") -> Spent:
    """Land increments of this slice alone; the first slice makes the rows."""
    flush()
    some = keys[: round(len(keys) * share)]
    for start in range(0, len(some), ENTRIES):
        Counter.objects.increment_many(dict.fromkeys(some[start : start + ENTRIES], 1))
    execute(first)
    return meter.around(lambda: flush().counters)


def _folded(keys: Sequence[str], meter: Meter, share: float) -> Spent:
    """Roll up entries of this slice alone."""
    let_others_end()
    rollup()
    entries = list(islice(cycle((key, 1) for key in keys), round(ROWS * share)))
    CounterDelta.objects.append_many(entries)
    let_others_end()
    return meter.around(lambda: rollup().entries)


def _landed(keys: Sequence[str]) -> int:
    """What is in the totals, wherever else something waits."""
    rows = Counter.objects.filter(key__in=keys)
    return sum(row.value for row in rows)


def verify(way: Way, counted: int) -> None:
    """Raise `WrongSum` unless so many are stored."""
    expect(way.name, way.stored(), counted)
