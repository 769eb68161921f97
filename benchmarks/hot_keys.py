"""Hot counters in a Redis Cluster: how evenly the work of skewed traffic falls on its nodes.

The traffic is Zipf's: the counter of rank *i* has a share proportional to 1 / i^s. Counters go to
the slots that the app gives them, slots to the hash slots of a cluster by the tags of their keys,
and hash slots to nodes in equal ranges. All of it is calculated, nothing is drawn by chance.
``python -m benchmarks.hot_keys`` prints the tables.
"""

from __future__ import annotations

import argparse
import heapq
import io
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count as numbers
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from django_counters.stores.redis.keys import SLOTS, Slots, slot_of

COUNTERS = 100_000
HOTTEST = 16  # counters that are divided
NODES = (1, 2, 3, 4, 6, 8, 16, 32, 64)
TICKS = (1, 2, 4, 8, 16, 32, 64)
SKEWS = (0.8, 0.9, 1.0, 1.1, 1.2)

# The work of each slot of each cache, as a share of what it was without a remedy.
Work = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Remedy:
    """What is done about hot counters.

    Attributes:
        words: what it is, for people.
        parts: into how many each of the hottest counters is divided.
        largest: the largest share of all increments that is left in one part.
        batch: how many increments of all counters a client gathers, merges by counter, and sends.
        caches: how many caches the counters are divided among.
        placed: whether slots are moved to nodes so that all have as much to do, as far as can be.
    """

    words: str
    parts: int = 1
    largest: float = 1.0
    batch: int = 1
    caches: int = 1
    placed: bool = False


NOTHING = Remedy("as it comes")
PLACED = Remedy("slots placed by hand", placed=True)
DIVIDED = Remedy(f"placed, the {HOTTEST} hottest counters in 16 parts", parts=16, placed=True)
CACHES = Remedy("the same in 8 caches", parts=16, caches=8, placed=True)
MERGED = Remedy("placed, clients merge 1,000 increments", batch=1000, placed=True)
REMEDIES = (NOTHING, PLACED, DIVIDED, CACHES, MERGED)


@cache
def shares(skew: float, counters: int = COUNTERS) -> tuple[float, ...]:
    """The share of all increments of each counter, the hottest one first; together they are 1."""
    weights: list[float] = [rank**-skew for rank in range(1, counters + 1)]
    whole = sum(weights)
    return tuple(weight / whole for weight in weights)


def commands(share: float, batch: int) -> float:
    """What a counter costs for one increment of any: its chance to be in a batch, for each of it.

    Of a batch of one that is its share.
    """
    return (1 - math.pow(1 - share, batch)) / batch


@cache
def changed(skew: float, increments: float, counters: int = COUNTERS) -> float:
    """How many different counters so many increments change."""
    return counters - math.fsum(math.pow(1 - share, increments) for share in shares(skew, counters))


@cache
def work(skew: float, remedy: Remedy, counters: int = COUNTERS) -> Work:
    """What each slot of each cache has to do for one increment, in commands."""
    slots = [[0.0] * SLOTS for _ in range(remedy.caches)]
    number = numbers()
    for rank, share in enumerate(shares(skew, counters)):
        for name, part in _parts(rank, share, remedy):
            # Not the slot decides the cache: a namespace does, and has counters in all slots.
            one = slots[next(number) % remedy.caches]
            one[slot_of(name)] += commands(part, remedy.batch)
    return tuple(map(tuple, slots))


def pieces(share: float, largest: float) -> int:
    """Into how many parts a counter is divided, so that none has more than the largest share."""
    return max(1, math.ceil(share / largest))


def _parts(rank: int, share: float, remedy: Remedy) -> Iterator[tuple[str, float]]:
    name = f"views:page:{rank + 1}"
    parts = max(remedy.parts if rank < HOTTEST else 1, pieces(share, remedy.largest))
    if parts == 1:
        yield name, share
        return
    for part in range(parts):
        yield f"{name}:{part}", share / parts


def nodes(work: Work, count: int, placed: bool = False) -> list[float]:
    """What each node has to do."""
    loads = [0.0] * count
    if not placed:
        for number, slots in enumerate(work):
            for tag, load in zip(tags(number), slots, strict=True):
                loads[tag * count // REDIS_CLUSTER_HASH_SLOTS] += load
        return loads
    # The largest first, each to the node that has least.
    for load in sorted((load for slots in work for load in slots), reverse=True):
        heapq.heapreplace(loads, loads[0] + load)
    return loads


@cache
def tags(number: int) -> tuple[int, ...]:
    """The hash slots of the slots of a cache, by the prefix of its keys."""
    prefix = f"cache{number}" if number else ""
    slots = Slots("default", prefix)
    return tuple(key_slot(slots.keys(slot)[0].encode()) for slot in range(SLOTS))


def busiest(skew: float, count: int, remedy: Remedy = NOTHING, counters: int = COUNTERS) -> float:
    """How much more the busiest node has to do than the mean."""
    loads = nodes(work(skew, remedy, counters), count, remedy.placed)
    return max(loads) * count / sum(loads)


def capacity(skew: float, count: int, remedy: Remedy = NOTHING) -> float:
    """How many increments the cluster takes, as a multiple of what one node takes as it comes."""
    return 1 / max(nodes(work(skew, remedy), count, remedy.placed))


def evenness() -> list[list[str]]:
    """The rows of a table: the busiest node by skew and number of nodes."""
    head = ["nodes", *(f"s = {skew}" for skew in SKEWS)]
    return [head, *([str(count), *_row(count)] for count in NODES)]


def _row(count: int) -> list[str]:
    return [f"{busiest(skew, count):.2f}" for skew in SKEWS]


def remedies(skew: float = 1.0) -> list[list[str]]:
    """The rows of a table: what a cluster takes by remedy and number of nodes."""
    head = ["nodes", *(remedy.words for remedy in REMEDIES)]
    rows = ([str(count), *_taken(skew, count)] for count in NODES)
    return [head, *rows]


def _taken(skew: float, count: int) -> list[str]:
    return [f"{capacity(skew, count, remedy):,.1f}" for remedy in REMEDIES]


def hottest() -> list[list[str]]:
    """The rows of a table: the shares of the hottest counters."""
    ranks: dict[str, Callable[[Sequence[float]], float]] = {
        "the hottest counter": lambda all_shares: all_shares[0],
        f"the {HOTTEST} hottest": lambda all_shares: sum(all_shares[:HOTTEST]),
    }
    told = {skew: shares(skew) for skew in SKEWS}
    head = ["share of all increments", *(f"s = {skew}" for skew in SKEWS)]
    return [head, *([words, *(f"{of(told[s]):.1%}" for s in SKEWS)] for words, of in ranks.items())]


def picture() -> str:
    """Both sides of it as an SVG: how uneven the work is, and what can be done about it."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from benchmarks.plots import STYLE

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.6), layout="constrained")
        uneven, taken = figure.subplots(1, 2)
        _draw(uneven, {f"s = {skew}": partial(busiest, skew) for skew in SKEWS[::2]})
        _draw(taken, {one.words: partial(capacity, 1.0, remedy=one) for one in REMEDIES})
        uneven.axhline(1, color="grey", linestyle="--", label="even")
        taken.plot(NODES, NODES, color="grey", linestyle="--", label="even, nothing merged")
        _label(uneven, "busiest node / mean", "Work of the busiest node, as it comes")
        _label(taken, "times what one node takes", "What a cluster takes, s = 1")
        told = io.StringIO()
        figure.savefig(told, format="svg", metadata={"Date": None})
    return "\n".join(line.rstrip() for line in told.getvalue().splitlines()) + "\n"


def _draw(axes: Any, lines: Mapping[str, Callable[[int], float]]) -> None:
    from benchmarks.plots import COLOURS, MARKERS

    for (words, of), colour, marker in zip(lines.items(), COLOURS, MARKERS, strict=False):
        axes.plot(NODES, list(map(of, NODES)), color=colour, marker=marker, label=words)


def _label(axes: Any, y: str, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel=y, title=title)
    axes.set_xticks(NODES, [str(count) for count in NODES])
    axes.set_yticks(TICKS, [str(tick) for tick in TICKS])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small")


def main(arguments: Sequence[str]) -> None:
    """Print the tables, or write them and their picture into the documentation."""
    from benchmarks.capacity.costs import ruled

    parser = argparse.ArgumentParser("python -m benchmarks.hot_keys", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="write them into the documentation")
    if parser.parse_args(arguments).publish:
        from benchmarks.capacity import page

        page.publish_hot_keys()
        return
    for table in (hottest(), evenness(), remedies()):
        print("\n".join([*ruled(table), ""]))


if __name__ == "__main__":
    main(sys.argv[1:])
