"""Partitions of the ledger of any width, so that a test sees them come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django_counters.ledger import upkeep as partitions
from django_counters.ledger.horizon import SqlHorizon
from django_counters.ledger.partitions import SqlPartitions
from django_counters.models import CounterHorizon, CounterPartition
from tests.concurrency.servers import execute


@contextmanager
def narrow(width: timedelta, window: timedelta) -> Iterator[None]:
    """Partitions of a width, and tokens that are known for so long; afterwards as before."""
    remove_partitions()
    know_tokens_for(window)
    partitions.maintain(width=width, ahead=7)
    try:
        yield
    finally:
        remove_partitions()
        CounterHorizon._base_manager.all().delete()
        partitions.maintain()


def remove_partitions() -> None:
    """Drop all there are, with what they have."""
    for extent in SqlPartitions("default").present():
        execute(f'DROP TABLE "{extent.name}"')


def know_tokens_for(window: timedelta) -> None:
    """Change how old a token may be."""
    SqlHorizon("default").found()
    CounterHorizon._base_manager.update(token_window=window)


def dropped() -> list[CounterPartition]:
    """What is known of the partitions that are gone."""
    rows = CounterPartition._base_manager.exclude(dropped_at=None)
    return list(rows.order_by("since"))
