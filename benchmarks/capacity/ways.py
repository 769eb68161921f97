"""The operations whose costs are measured; each is counted at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle, islice

from benchmarks.capacity.meter import Meter, Spent
from benchmarks.cases.cached import client, prefix
from benchmarks.cases.flush import landed
from benchmarks.inspection import execute, let_others_end
from django_counters.cached.flush import flush
from django_counters.models import Counter, CounterDelta
from django_counters.upkeep import rollup

CALLS = 2000  # of a slice
KEYS = 100  # counters of a way, and of a batch
ENTRIES = 1000  # of a batch of the ledger
ROWS = 20_000  # of a slice of upkeep
TABLE = 50_000  # counters of which some are flushed
_numbers = count()

Calls = Callable[[Sequence[str], float], int]


@dataclass(frozen=True)
class Way:
    """One operation, done for a while in each slice, and how many of them are stored in all.

    The second argument of ``slice`` is the share of the usual number.
    """

    name: str
    words: str
    slice: Callable[[Meter, float], Spent]
    stored: Callable[[], int]


def ways() -> list[Way]:
    """All of them; Django is set up."""
    return [
        _called("exact", "increment, exact", "views", _each),
        _called("sharded", "increment, sharded", "spread", _each),
        _called("ledger", "increment, ledger", "orders", _each),
        _called("cached", "increment, cached", "pages", _each),
        _called("exact-many", f"increment_many of {KEYS}, exact", "views", _many),
        _called("ledger-many", f"append_many of {ENTRIES:,}, ledger", "orders", _appended),
        _called("cached-many", f"increment_many of {KEYS}, cached", "pages", _many),
        _called("nothing", "increment, cached, returns nothing", "blind", _each),
        _called(
            "nothing-many", f"increment_many of {KEYS}, cached, returns nothing", "blind", _many
        ),
        _first("cached-first", "increment, cached, whose total Redis does not know", "pages"),
        _first("nothing-first", "increment, cached, returns nothing, of a new key", "blind"),
        _called("merged", "increment into a buffer", "buffered", _each),
        _bare(),
        _flush(),
        *_sparse(),
        _rollup(),
    ]


def rows(space: str, what: str, number: int = ROWS) -> list[str]:
    """Counters that nobody else has, not even who measures a second time."""
    case = next(_numbers)
    return [f"{space}:cost-{what}{case}-{one}" for one in range(number)]


def _called(name: str, words: str, space: str, calls: Calls) -> Way:
    keys = rows(space, name, KEYS)

    def run(meter: Meter, share: float) -> Spent:
        # Redis knows a total for a minute: what asks for it again is another way, below.
        Counter.objects.values_of(keys, consistency="cached", max_age=0)
        return meter.around(lambda: calls(keys, share))

    return Way(name, words, run, lambda: sum(Counter.objects.values_of(keys).values()))


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


def _appended(keys: Sequence[str], share: float) -> int:
    entries, calls = [(key, 1) for key in islice(cycle(keys), ENTRIES)], round(CALLS * share) // 50
    for _ in range(calls):
        CounterDelta.objects.append_many(entries)
    return calls * ENTRIES


def _first(name: str, words: str, space: str) -> Way:
    """New keys: Redis does not know the total to which it would have to add what waits."""
    case, used = next(_numbers), list[str]()

    def calls(number: int) -> int:
        fresh = [f"{space}:cost-first{case}-{len(used) + one}" for one in range(number)]
        used.extend(fresh)
        for key in fresh:
            Counter.objects.increment(key)
        return number

    return Way(
        name,
        words,
        lambda meter, share: meter.around(lambda: calls(round(CALLS * share))),
        lambda: sum(Counter.objects.values_of(used).values()),
    )


def _bare() -> Way:
    """The least that counts in Redis, to see what the rest costs."""
    key = f"{prefix()}:cost-bare{next(_numbers)}"

    def run(meter: Meter, share: float) -> Spent:
        with client() as server:
            server.ping()

            def counted() -> int:
                for _ in range(round(CALLS * share)):
                    server.incrby(key, 1)
                return round(CALLS * share)

            return meter.around(counted)

    def stored() -> int:
        with client() as server:
            return int(server.get(key))

    return Way("incrby", "for comparison: INCRBY of redis-py", run, stored)


def _flush() -> Way:
    """Lands increments of a slice alone; the first slice makes the rows."""
    keys = rows("pages", "landed")

    def run(meter: Meter, share: float) -> Spent:
        flush()
        _wait(keys[: round(len(keys) * share)])
        return meter.around(lambda: flush().counters)

    return Way("flush", "counter of a flush", run, partial(landed, keys))


def _sparse() -> list[Way]:
    """Lands some of many counters right after a checkpoint, evenly spread over the table.

    The first change of a page after a checkpoint takes the whole page into the write-ahead log.
    """
    keys, made = rows("blind", "sparse", TABLE), list[str]()

    def run(mine: Sequence[str], meter: Meter, share: float) -> Spent:
        if not made:
            _wait(keys)
            made.extend(keys)
        flush()
        _wait(mine[: round(len(mine) * share)])
        execute("CHECKPOINT")
        return meter.around(lambda: flush().counters)

    def way(percent: int, among: tuple[int, ...]) -> Way:
        mine = [key for number, key in enumerate(keys) if number % 50 in among]
        words = f"counter of a flush of {percent} % of {TABLE:,}, after a checkpoint"
        counted = partial(landed, mine)
        return Way(f"flush-{percent}", words, partial(run, mine), lambda: counted() - len(mine))

    # Each its own counters, as what it has counted is looked for at the end.
    return [
        way(2, (0,)),
        way(10, (1, 11, 21, 31, 41)),
        way(40, tuple(number for number in range(50) if number % 5 in (2, 4))),
    ]


def _wait(keys: Sequence[str]) -> None:
    """Count one each, so that they wait to be flushed."""
    for start in range(0, len(keys), ENTRIES):
        Counter.objects.increment_many(dict.fromkeys(keys[start : start + ENTRIES], 1))


def _rollup() -> Way:
    """Rolls up entries of a slice alone."""
    keys = rows("orders", "folded", ENTRIES)

    def run(meter: Meter, share: float) -> Spent:
        let_others_end()
        rollup()
        entries = islice(cycle((key, 1) for key in keys), round(ROWS * share))
        CounterDelta.objects.append_many(list(entries))
        let_others_end()
        return meter.around(lambda: rollup().entries)

    words = f"entry of a rollup, {ROWS // ENTRIES} for each of {ENTRIES:,} counters"
    return Way("rollup", words, run, partial(landed, keys))
