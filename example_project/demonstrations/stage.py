"""Where the demonstrations take place: tables, a part of Redis and namespaces of their own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import redis
from django.db import connection
from django.test import override_settings

from django_counters.cached.sources import slots_of
from django_counters.redis.keys import SLOTS
from django_counters.testing import override_counters
from example_project.demonstrations import caches, columns, peers, transactions
from example_project.demonstrations.outcome import Demonstration, Outcome
from example_project.demonstrations.tables import Change, Page
from example_project.scratch import tables

WAYS: dict[str, Demonstration] = {**columns.WAYS, **transactions.WAYS, **caches.WAYS}
# Patient: the machine may be busy, and a Redis that does not answer is another story.
NAMESPACES: dict[str, dict[str, object]] = {
    "entries": {"STRATEGY": "ledger"},
    "views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
}


@contextmanager
def stage() -> Iterator[None]:
    """All that the demonstrations need in the present database, which has to be a PostgreSQL."""
    prefix = f"demonstrations-{secrets.token_hex(6)}"
    backend = "django_redis.cache.RedisCache"
    place = {"BACKEND": backend, "LOCATION": os.environ["REDIS_URL"], "KEY_PREFIX": prefix}
    with (
        override_settings(CACHES={"default": place}),
        override_counters(**NAMESPACES),
        _impatient(),
        tables(Page, Change),
    ):
        try:
            yield
        finally:
            _forget(prefix)


@contextmanager
def _impatient() -> Iterator[None]:
    """Rather an error than a wait for a client that goes on only when it is told to."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20s'")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")


def _forget(prefix: str) -> None:
    """Delete what the cached counters have left in Redis."""
    slots = slots_of("default", prefix)
    left = [key for slot in range(SLOTS) for key in slots.keys(slot)]
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        client.delete(slots.flight, *left)


USUAL, OURS = "usual way", "django_counters"


def outcomes(names: Sequence[str]) -> dict[str, dict[str, Outcome]]:
    """Run the named scenes in each way; return what each way counted."""
    return {
        name: {USUAL: WAYS[name].naive(), **peers.outcomes(name), OURS: WAYS[name].exact()}
        for name in names
    }


def table(counted: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Return what each way counted, as text."""
    rows = [("", "done", USUAL, *peers.WAYS, OURS)]
    for name, ways in counted.items():
        rows.append((name, str(ways[OURS].expected), *map(str, ways.values())))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
