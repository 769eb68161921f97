"""Partitions that are sealed and dropped while others read and write."""

from __future__ import annotations

import threading
from collections import Counter as Sums
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection, transaction

from django_counters import clock
from django_counters.errors import TokenExpired
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.sql import Extent
from django_counters.ledger.upkeep import PartitionReport, maintain
from django_counters.models import Counter, CounterDelta, CounterIncident, CounterPartition
from django_counters.stores.base import PartitionBusy
from django_counters.tokens import mint, moment_of
from django_counters.upkeep import rollup, verify
from tests.concurrency.book import Book
from tests.concurrency.crowd import PATIENCE, Threads
from tests.concurrency.narrow import dropped, know_tokens_for, narrow
from tests.concurrency.servers import connected, execute
from tests.settling import roll_up

pytestmark = [pytest.mark.rare, pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]
HOUR = timedelta(hours=1)
AT_ONCE = timedelta(0)


@pytest.fixture(autouse=True)
def _hours(transactional_db: None) -> Iterator[None]:
    with narrow(HOUR, window=10 * HOUR), connected("late", "later"):
        Counter.objects.bulk_create([Counter(key="a", value=0, outside=0)])
        yield


def append(token: UUID, using: str = "default") -> bool:
    """Append 5; whether it was there before."""
    return CounterDelta.objects.append("a", 5, token=token, using=using).replayed


def token_of_before(hours: float = 9.0) -> UUID:
    return mint(clock.utc() - hours * HOUR)


def partition_of(token: UUID) -> Extent:
    present = SqlPartitions("default").present()
    (found,) = (one for one in present if one.since <= moment_of(token) < one.until)
    return found


def seal(token: UUID) -> bool:
    return SqlPartitions("default").seal(partition_of(token))


def assert_exact(expected: int) -> None:
    assert Counter.objects.value("a") == expected
    assert verify().drifts == []
    assert not CounterIncident.objects.exists()


class TestSealing:
    """What is sealed is complete, although its writers are asked nothing."""

    def test_what_is_not_rolled_up_keeps_its_partition_open(self) -> None:
        token = token_of_before()
        append(token)
        assert not seal(token)
        roll_up()
        assert seal(token)
        assert_exact(5)

    def test_so_does_what_is_not_committed(self) -> None:
        token = token_of_before()
        with transaction.atomic(using="late"):
            append(token, using="late")
            rollup()
            with pytest.raises(PartitionBusy):
                seal(token)
        assert not seal(token)
        roll_up()
        assert seal(token)
        assert_exact(5)

    def test_nobody_comes_between_the_look_and_the_seal(self) -> None:
        first, second = token_of_before(), token_of_before()
        append(first)
        roll_up()
        execute("SET lock_timeout = '50ms'", using="late")
        with connection.execute_wrapper(before("ADD CONSTRAINT", lambda: refused(second))):
            assert seal(first)
        with pytest.raises(TokenExpired):
            append(second)
        know_tokens_for(HOUR)
        assert append(first), "what was counted can still be told"
        assert_exact(5)
        assert partition_of(first).name in maintain(width=HOUR, keep=AT_ONCE).dropped
        assert_exact(5)

    def test_a_reader_is_not_in_its_way_for_ever(self) -> None:
        token = token_of_before()
        with transaction.atomic(using="late"):
            assert Counter.objects.value("a", using="late") == 0
            with pytest.raises(PartitionBusy):
                seal(token)
        assert seal(token)


def refused(token: UUID) -> None:
    with pytest.raises(OperationalError, match="lock timeout"):
        append(token, using="late")


def before(words: str, call: Callable[[], Any]) -> Callable[..., Any]:
    """A wrapper that calls somebody before the statement with these words."""

    def wrapper(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if words in sql:
            call()
        return execute(sql, *rest)

    return wrapper


def append_in_each_hour() -> list[UUID]:
    """An entry in each partition; the tokens of those that can be sealed thereafter."""
    tokens = [token_of_before(hours + 0.5) for hours in range(9)]
    for token in tokens:
        append(token)
    roll_up()
    know_tokens_for(HOUR)
    return tokens[4:]


@pytest.fixture
def old() -> set[str]:
    """Sealed partitions with an entry each; their names."""
    names = {partition_of(token).name for token in append_in_each_hour()}
    maintain_all()
    assert names <= SqlPartitions("default").sealed().keys()
    return names


def maintain_all(keep: timedelta | None = None) -> None:
    """Whatever others hold is taken the next time."""
    while maintain(width=HOUR, keep=keep).busy:
        pass


def twice(lists: Iterable[list[str]]) -> set[str]:
    """What stands in more than one of them."""
    return {name for name, number in Sums(chain(*lists)).items() if number > 1}


@dataclass
class Street:
    """Where some read and write, one reads for long, and one wants to drop partitions."""

    book: Book
    begun: threading.Barrier
    ended: threading.Event

    def drop(self) -> list[PartitionReport]:
        """Try it while somebody reads, and again when nobody does for long."""
        self.begun.wait(PATIENCE)
        first = maintain(width=HOUR, keep=AT_ONCE)
        self.ended.set()
        return [first, maintain(width=HOUR, keep=AT_ONCE)]

    def read_for_long(self) -> None:
        """Hold on to all partitions."""
        with transaction.atomic():
            assert Counter.objects.value("a") >= 45
            self.begun.wait(PATIENCE)
            assert self.ended.wait(PATIENCE)

    def write(self, number: int) -> None:
        """Append as long as somebody tries."""
        while not self.ended.is_set():
            self.book.write(number, 5, lambda: append(mint(clock.utc())))
        self.book.ended[number] = 1

    def work(self, number: int) -> Any:
        """Be one of them; all but the first one wait for no lock longer than a second."""
        if number == 0:
            return self.drop()
        execute("SET lock_timeout = '1s'")
        if number == 1:
            return self.read_for_long()
        if number < 4:
            return self.write(number - 2)
        return self.book.observe(lambda: Counter.objects.value("a") - 45)


class TestDropping:
    def test_several_at_once_seal_and_drop_once(self) -> None:
        names = {partition_of(token).name for token in append_in_each_hour()}
        for keep, done in ((None, "sealed"), (AT_ONCE, "dropped")):
            reports = Threads(4).run(lambda number: maintain(width=HOUR, keep=keep))  # noqa: B023
            assert [report.failed for report in reports] == [[]] * 4
            assert names.isdisjoint(twice(getattr(report, done) for report in reports))
            maintain_all(keep)
            whole = CounterPartition.objects.filter(entries=1).values_list("pk", flat=True)
            assert names <= set(whole)
        assert names <= {one.name for one in dropped()}
        assert_exact(45)

    def test_while_it_is_verified(self, old: set[str]) -> None:
        """A partition that goes while its entries are counted has not lost any."""

        def drop() -> None:
            maintain("later", width=HOUR, keep=AT_ONCE)

        with connection.execute_wrapper(before("FULL JOIN", drop)):
            assert verify().drifts == []
        assert old <= {one.name for one in dropped()}
        assert_exact(45)

    def test_readers_and_writers_hardly_notice(self, old: set[str]) -> None:
        """None of them waits for a second, also where a long reader keeps all from being dropped.

        Whoever waits longer for a lock gets an error here, and whoever is in a deadlock as well.
        """
        street = Street(Book.of(2), threading.Barrier(2), threading.Event())
        (first, second), *_, seen, seen_too = Threads(6).run(street.work)
        assert old <= set(first.busy)
        assert first.dropped == []
        assert old <= set(second.dropped)
        for *wrong, last in (seen, seen_too):
            assert wrong == []
            assert last.value > 0
        assert_exact(45 + street.book.sums()[0])
