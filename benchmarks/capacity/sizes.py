"""What is kept: bytes of an entry, of a counter, of what waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice

from benchmarks.capacity.costs import Figure, Span
from benchmarks.cases.cached import client, prefix
from benchmarks.harness import Effort
from benchmarks.inspection import execute
from django_counters.models import Counter, CounterDelta
from django_counters.stores.redis.keys import SLOTS, Slots
from django_counters.upkeep.flush import flush

THINGS = 20_000  # of a round, at most
FEWEST = 10_000  # Redis keeps a few hundred fields of a hash in a smaller form than many
PAGE = 1000  # of one call
_numbers = count()
TOTALS = f"SELECT pg_total_relation_size('{Counter._meta.db_table}')"
PARTITIONS = (
    "SELECT SUM(pg_total_relation_size(relid))::bigint "
    f"FROM pg_partition_tree('{CounterDelta._meta.db_table}')"
)

Progress = Callable[[str], None]


def sizes(effort: Effort, progress: Progress) -> Iterator[Figure]:
    """What one of each takes, as much as it grew by so many."""
    entries, rows, waiting, known = [], [], [], []
    things = max(FEWEST, round(THINGS * effort.share))
    for number in range(effort.rounds):
        progress(f"capacity: sizes, round {number + 1} of {effort.rounds}")
        entries.append(_entry(_keys("orders", things)))
        rows.append(_row(_keys("views", things)))
        pending, base = _waiting(_keys("pages", things))
        waiting.append(pending)
        known.append(base)
    yield Figure("entry", "an entry of a ledger, with its indexes", "bytes", Span.of(entries))
    yield Figure("row", "a named counter, with its index", "bytes", Span.of(rows))
    yield Figure("pending", "a counter that waits in Redis", "bytes", Span.of(waiting))
    yield Figure("known", "a total that Redis has to answer with", "bytes", Span.of(known))


def _pages(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    rest = iter(keys)
    while page := list(islice(rest, PAGE)):
        yield page


def _keys(space: str, things: int) -> list[str]:
    case = next(_numbers)
    return [f"{space}:size-{case}-{one}" for one in range(things)]


def _entry(keys: Sequence[str]) -> float:
    before = execute(PARTITIONS)
    for page in _pages(keys):
        CounterDelta.objects.append_many([(key, 1) for key in page])
    return (execute(PARTITIONS) - before) / len(keys)


def _row(keys: Sequence[str]) -> float:
    before = execute(TOTALS)
    for page in _pages(keys):
        Counter.objects.increment_many(dict.fromkeys(page, 1))
    return (execute(TOTALS) - before) / len(keys)


def _waiting(keys: Sequence[str]) -> tuple[float, float]:
    """Of a counter that waits: what holds its increments, and what holds its total."""
    flush()
    before = _memory()
    for page in _pages(keys):
        Counter.objects.increment_many(dict.fromkeys(page, 1))
        Counter.objects.values_of(page, consistency="cached")  # whoever reads leaves the total
    after = _memory()
    flush()
    pending, known = ((now - then) / len(keys) for now, then in zip(after, before, strict=True))
    return pending, known


def _memory() -> tuple[int, int]:
    """Bytes of all generations, and of all known totals."""
    slots = Slots("default", prefix())
    with client() as server:

        def taken(key: str) -> int:
            return int(server.memory_usage(key, samples=0) or 0)

        every = [slots.keys(slot) for slot in range(SLOTS)]
        pending = sum(taken(key) for one in every for key in (one[0], *one[2:]))
        return pending, sum(taken(one[1]) for one in every)
