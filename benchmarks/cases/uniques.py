"""How many different people there were in some days, from a sketch of each day."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from django.utils import timezone

from benchmarks.database import known
from benchmarks.harness import Pair, Work, WrongSum, loop, loops, remain
from benchmarks.inspection import execute
from benchmarks.models import DaySketch, Visited
from django_counters.contrib.uniques.sketches import ERROR, Sketch, union
from django_counters.measure import member_of
from example_project.scratch import tables

DAYS = 30
VISITS = 20_000  # of a day, by a tenth of those who may come
LESS = 2000  # where time is short
KEY = b"k" * 32
ROWS = Visited._meta.db_table
Stored = tuple[str, bytes]
_numbers = count()


@contextmanager
def beside_rows(visits: int) -> Iterator[Pair]:
    """Sketches and visits are both in the database."""
    key = f"visits:unique{next(_numbers)}"
    with tables(Visited, DaySketch):
        _visited(key, visits)
        for members in _days(key):
            _keep(key, Sketch.of(members))
        known(Visited, DaySketch)
        mine = partial(_stored_count, key)
        theirs = Visited.objects.filter(key=key).values("visitor").distinct().count
        verify = remain((mine, _checked(mine(), theirs())), (theirs, theirs()))
        yield Pair(loop(mine, 10), loop(theirs, 1), verify)


@contextmanager
def beside_datasketches(visits: int) -> Iterator[Pair]:
    """Each starts from what it would have stored, in memory."""
    peer = importlib.import_module("datasketches")
    key = f"visits:unique{next(_numbers)}"
    with tables(Visited, DaySketch):
        _visited(key, visits)
        serialized = []
        for members in _days(key):
            _keep(key, Sketch.of(members))
            serialized.append(_serialized(peer, members))
        stored = _stored(key)
        mine, theirs = partial(_counted, stored), partial(_united, peer, serialized)
        truth = execute(f"SELECT COUNT(DISTINCT visitor) FROM {ROWS} WHERE key = '{key}'")
        for found in (mine(), theirs()):
            _checked(found, truth)
        verify = remain((partial(_stored_count, key), mine()), (theirs, theirs()))
        yield loops(mine, theirs, verify, times=20)


def _visited(key: str, visits: int) -> None:
    """So many visits on each of the days, by whoever comes."""
    since = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    moment = f"'{(since - timedelta(days=DAYS)).isoformat()}'::timestamptz"
    execute(
        f"INSERT INTO {ROWS} (key, visitor, created) SELECT '{key}', "
        f"'user:' || floor(random() * {10 * visits}), {moment} + interval '1 day' / {visits} * n "
        f"FROM generate_series(0, {DAYS * visits - 1}) AS n"
    )


def _days(key: str) -> Iterator[list[int]]:
    """The members of each day, in the order of their visits."""
    rows = Visited.objects.filter(key=key).order_by("created", "pk")
    visitors = list(rows.values_list("visitor", flat=True))
    each = len(visitors) // DAYS
    for first in range(0, len(visitors), each):
        yield [member_of(visitor, KEY) for visitor in visitors[first : first + each]]


def _keep(key: str, sketch: Sketch) -> None:
    DaySketch.objects.create(key=key, day=timezone.now(), kind=sketch.kind, body=sketch.body)


def _stored(key: str) -> list[Stored]:
    rows = DaySketch.objects.filter(key=key).values_list("kind", "body")
    return [(kind, bytes(body)) for kind, body in rows]


def _counted(stored: Iterable[Stored]) -> int:
    return union(Sketch(kind, body) for kind, body in stored).count()


def _stored_count(key: str) -> int:
    return _counted(_stored(key))


def _serialized(peer: Any, members: Iterable[int]) -> bytes:
    sketch = peer.hll_sketch(14, peer.tgt_hll_type.HLL_8)
    for member in members:
        sketch.update(member)
    return bytes(sketch.serialize_compact())


def _united(peer: Any, serialized: Iterable[bytes]) -> int:
    together = peer.hll_union(14)
    for each in serialized:
        together.update(peer.hll_sketch.deserialize(each))
    found: float = together.get_estimate()
    return round(found)


def _checked(found: int, truth: int) -> int:
    """What was found, where it is as near to the truth as a sketch is."""
    if abs(found - truth) > 5 * ERROR * truth:
        raise WrongSum(f"a sketch counts {found} of {truth} visitors")
    return found


def _unions(prepare: Any) -> Work:
    return Work(partial(prepare, VISITS), slices=2, less=partial(prepare, LESS))


CASES: Mapping[str, Work] = {
    "uniques": _unions(beside_rows),
    "uniques-datasketches": _unions(beside_datasketches),
}
