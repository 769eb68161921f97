"""Processes that count in a region, exchange, or look, until they are killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import Error, close_old_connections

from django_counters.cached.flush import Generations, flush
from django_counters.cached.pending import RedisPending
from django_counters.contrib.regions.errors import RegionAway, RegionRestored
from django_counters.contrib.regions.publishing import Exchanged, publish
from django_counters.contrib.regions.pulling import pull
from django_counters.contrib.regions.sql import SqlRegions
from django_counters.errors import CounterError
from django_counters.models import Counter
from django_counters.stores.sql.positions import SqlPositions
from django_counters.upkeep import rollup
from tests.faults.regions.world import NAMESPACES, REGIONS, Book, World, far, hot, opened
from tests.faults.scene import Log

# At what an exchanger may die: before it, or when it was done and, mostly, not yet committed.
STEPS = (
    *((SqlRegions, name) for name in ("publish", "page", "store")),
    *((SqlPositions, name) for name in ("hold", "move", "label")),
    (Generations, "commit"),
    (RedisPending, "acknowledge"),
)


def enter(world: World, region: str) -> None:
    """Let this process belong to a region."""
    settings.COUNTERS_REGION = region
    settings.COUNTERS_REGIONS = {one: far(one) for one in world.orders().peers[region]}


def count(world: World, region: str, life: int) -> None:
    """Count, and write each increment down before it and after it."""
    chance = random.Random(f"{world.seed} counter {life}")
    namespace, place = chance.choice(NAMESPACES), f"{region}-{life}"
    file, book = opened(world.path(f"books/{namespace}~{place}")), Book()
    while True:
        book = _counted(book, "begun", "acknowledged", f"{namespace}:{place}", region, file)
        book = _counted(book, "hot_begun", "hot_acknowledged", hot(namespace), region, file)
        time.sleep(chance.uniform(0, 0.03))


def _counted(book: Book, begun: str, told: str, key: str, using: str, file: int) -> Book:
    book = book._replace(**{begun: getattr(book, begun) + 1})
    book.write(file)
    try:
        Counter.objects.increment(key, using=using)
    except (Error, CounterError) as error:
        # Its server is away, or was in the middle of it. Nobody knows whether this counts.
        print(key, error, flush=True)
        close_old_connections()
        time.sleep(0.05)
        return book
    book = book._replace(**{told: getattr(book, told) + 1})
    book.write(file)
    return book


def exchange(world: World, region: str, life: int) -> None:
    """Publish and copy again and again; every other life ends at some step."""
    chance, log = random.Random(f"{world.seed} exchanger {life}"), Log(world.path("exchange.log"))
    if life % 2:
        owner, name = STEPS[life // 2 % len(STEPS)]
        done = chance.random() < 0.5
        _let_die(owner, name, log, done=done, after=chance.randint(1, 9))
    while True:
        with suppress(Error, CounterError):
            flush(region)
        log.write("\n".join([*_publish(region), *_pull(region)]))
        if chance.random() < 0.05:
            with suppress(Error, CounterError):
                rollup(region)
        close_old_connections()
        time.sleep(chance.uniform(0, 0.1))


def _let_die(owner: Any, name: str, log: Log, *, done: bool, after: int) -> None:
    """Kill this process when something is done for the last time, or is to be done."""
    present: Callable[..., Any] = getattr(owner, name)
    left = after

    def dying(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left:
            return present(*arguments)
        if done:
            present(*arguments)
        log.write(f"killed {'after' if done else 'before'} {name}")
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, dying)


def _publish(region: str) -> list[str]:
    try:
        return [_line("published", region, publish(region))]
    except RegionRestored:
        return [f"restored {region}"]
    except RegionAway:
        return [f"away {region}"]
    except (Error, CounterError) as error:
        return [f"error {region} {error!r}"]


def _pull(region: str) -> list[str]:
    try:
        found = pull(region)
    except (Error, CounterError) as error:
        return [f"error {region} {error!r}"]
    return [_line("pulled", f"{region} of {name}", done) for name, done in found.items()]


def _line(what: str, whose: str, done: Exchanged) -> str:
    if done.problem:
        return f"problem {whose} {done.problem}"
    return f"busy {whose}" if done.busy else f"{what} {whose} {done.entries}"


def look(world: World, life: int) -> None:
    """Read what many count in any region: never more than was begun by then."""
    chance, log = random.Random(f"{world.seed} reader {life}"), Log(world.path("reads.log"))
    keys = [hot(namespace) for namespace in NAMESPACES]
    while True:
        try:
            found = Counter.objects.values_of(keys, using=chance.choice(REGIONS))
        except (Error, CounterError):
            close_old_connections()
        else:
            begun = dict.fromkeys(keys, 0)
            for name, book in world.books().items():
                begun[hot(name.partition("~")[0])] += book.hot_begun
            wrong = {key: (found[key], begun[key]) for key in keys if found[key] > begun[key]}
            log.write(f"wrong {wrong}" if wrong else "right")
        time.sleep(chance.uniform(0, 0.1))
