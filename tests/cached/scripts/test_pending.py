"""What waits in one Redis: requests, what the scripts write and answer, and what that means."""

from __future__ import annotations

import os
import re
import secrets
import zlib
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from django_counters import clock
from django_counters.cached.pending import RedisPending
from django_counters.cached.requests import Requests
from django_counters.cached.store import Lease
from django_counters.errors import (
    CounterError,
    CounterOverflow,
    CounterUnavailable,
    OutcomeUnknown,
    TokenConflict,
    TokenExpired,
)
from django_counters.redis.addresses import address_of
from django_counters.redis.commands import ServerRefused
from django_counters.redis.keys import SLOTS, SlotKeys, slot_of, space_of
from django_counters.tokens import mint
from django_counters.types import Delta
from tests.redis.servers import Server, needs_redis, running


def _deltas(sums: dict[str, int]) -> dict[str, Delta]:
    return {name: Delta(name, by) for name, by in sums.items()}


class Bench:
    """What waits in one Redis, under a name of its own, and a look at the keys behind it."""

    def __init__(self, url: str) -> None:
        self.using = f"test{secrets.token_hex(4)}"
        self.address = address_of(url, {"timeout": 10})
        self.slots = SlotKeys(self.using, "0" * 12)
        self.pending = RedisPending(self.address, self.slots)
        self.direct: Any = redis.Redis.from_url(url, decode_responses=True, protocol=2)

    def apart(self) -> Any:
        """As in a cluster: no command is about two slots."""
        pending: Any = RedisPending(self.address, self.slots)
        pending.together = False
        return pending

    def send(self, request: Any) -> Any:
        return self.pending.send(request)

    def add(self, age: int = -1, **deltas: int) -> dict[str, tuple[int | None, int]]:
        found = self.send(self.pending.add(_deltas(deltas), age)).found
        if age < 0:
            assert set(found) <= set(deltas)
            assert all(each.total is None for each in found.values())
            found = self.look(*found)
        return {name: (each.total, each.pending) for name, each in found.items()}

    def look(self, *names: str, age: int = -1) -> Any:
        return self.send(self.pending.look(names, age))

    def hash(self, slot: int, number: int) -> dict[str, str]:
        """0: the open generation, 1: known totals, 2 and more: the ring."""
        return dict(self.direct.hgetall(self.slots.keys(slot)[number]))

    def everything(self) -> dict[str, str]:
        """All that is open, of all slots."""
        opened = (self.hash(slot, 0) for slot in range(SLOTS))
        return {name: by for each in opened for name, by in each.items() if name[0] != "\0"}

    def fill(self, name: str, total: int) -> None:
        """Let a total be known, under the lease of now."""
        found = self.look(name, age=0)[name]
        self.send(self.pending.fill({name: (total, found.lease)}))

    def sealed(self) -> list[Any]:
        return [one for cut in self.pending.cut() for one in cut.sealed]

    def land(self) -> None:
        self.pending.acknowledge(dict.fromkeys(self.sealed(), ()))

    def names(self) -> list[str]:
        return sorted(self.direct.scan_iter(f"djc:{{{self.using}*", count=1000))

    def close(self) -> None:
        if keys := self.names():
            self.direct.delete(*keys)
        self.direct.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(os.environ["REDIS_URL"])
    yield made
    made.close()


class TestSlots:
    def test_a_counter_has_one_for_ever(self) -> None:
        # As they are in Redis already: another function would lose them.
        assert [slot_of(key) for key in ("views:a", "größe", "")] == [
            zlib.crc32(key.encode()) % 16 for key in ("views:a", "größe", "")
        ]
        assert (slot_of("views:a"), slot_of("views:b"), SLOTS) == (11, 1, 16)


class TestRequests:
    def test_a_cluster_answers_the_same(self, bench: Bench) -> None:
        names = {f"n{number}": number + 1 for number in range(100)}
        apart, deltas = bench.apart(), _deltas(names)
        for request in (apart.add(deltas, 0), apart.look(names, -1)):
            # Each command is about one slot, so about one server.
            assert {len(command.keys) for command in request.commands} == {10}
        found = apart.send(apart.add(deltas, 0)).found
        assert {name: each.pending for name, each in found.items()} == names
        assert set(apart.send(apart.add(_deltas(dict.fromkeys(names, 0)), -1)).found) == set(names)
        assert {name: each.pending for name, each in bench.look(*names).items()} == names

    def test_what_part_of_a_cluster_refuses(self, bench: Bench) -> None:
        apart = bench.apart()
        apart.send(apart.add(_deltas({"views:a": 2**62}), -1))
        added = apart.send(apart.add(_deltas({"views:a": 2**62, "views:b": 1}), -1))
        assert (set(added.found), set(added.refused)) == ({"views:b"}, {"views:a"})
        assert isinstance(added.refused["views:a"], CounterOverflow)


@pytest.mark.parametrize("others", [[], ["b", "c"]])
def test_cells_of_discarded_counters_go_whatever_their_names_are(
    bench: Bench, others: list[str]
) -> None:
    gone = ["a.B.c x*[y]?\\z", "a.B.c a"]
    stay = ["a.B.c xa[y]bz", "a.B.c", "a.B.c b a.B.c a", "a.B.c xxyay\\z"]
    slots = bench.slots
    for slot in range(SLOTS):
        for key in (slots.keys(slot)[0], slots.place(slot, 3)):
            bench.direct.hset(key, "\0g", key[-2:])
            for counter in [*gone, *stay]:
                bench.direct.hset(key, f"#1.2.3 ~ {counter}", 1)
                bench.direct.hset(key, f"#n.1.2.3  {counter}", 1)
    for search in bench.send(bench.pending.discard([*gone, *others])):
        bench.send(bench.pending.discard_cells(search))
    for counter in [*gone, *stay]:
        slot = slot_of(counter)
        for key in (slots.keys(slot)[0], slots.place(slot, 3)):
            there = {field for field in bench.direct.hkeys(key) if field.endswith(f" {counter}")}
            exact = {f"#1.2.3 ~ {counter}", f"#n.1.2.3  {counter}"}
            assert there & exact == (set() if counter in gone else exact)


class TestAnswers:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            *((code, CounterUnavailable) for code in ("OOM", "READONLY", "LOADING", "MISCONF")),
            *((code, CounterUnavailable) for code in ("CLUSTERDOWN", "NOAUTH", "NOPERM", "BUSY")),
            ("ERR unknown command", CounterUnavailable),
            *((code, OutcomeUnknown) for code in ("upstream", "no", "ERR Connection timed out")),
            ("OVERFLOW", CounterOverflow),
            ("CONFLICT", TokenConflict),
            ("EXPIRED", TokenExpired),
        ],
    )
    def test_what_an_error_means(self, error: str, kind: type[CounterError]) -> None:
        refused = ServerRefused(error, mint(clock.utc()).hex)
        meant = Requests("r", SlotKeys("x", ""), together=True).meaning(refused)
        assert type(meant) is kind
        assert str(meant)


class TestFlight:
    def test_one_at_a_time_for_a_minute_or_longer(self, bench: Bench) -> None:
        key, client = bench.slots.flight, bench.direct
        with bench.pending.flight() as goes_on:
            assert goes_on is not None
            with bench.pending.flight() as second:
                assert second is None
            # Who did not have it does not let go of it; that of a process that died ends by itself.
            assert 0 < client.pttl(key) <= 60_000
            client.pexpire(key, 1000)
            goes_on()
            assert client.pttl(key) > 5000
            client.set(key, "another")
            goes_on()
            assert client.get(key) == "another"
        # One that ran out does not end that of another.
        assert client.get(key) == "another"
        client.delete(key)
        with pytest.raises(KeyError), bench.pending.flight():
            raise KeyError
        assert not client.exists(key)


def test_names_of_databases_and_prefixes_are_digests() -> None:
    spaces = [space_of(*pair) for pair in [("shop}*", ""), ("shop}*", "b"), ("b", "shop}*")]]
    named = [SlotKeys("default", space).keys(3) for space in spaces]
    for keys in named:
        assert re.fullmatch(r"djc:\{default:[0-9a-f]{12}:3\}:p", keys[0])
    assert len({*chain.from_iterable(named), *SlotKeys("other", spaces[0]).keys(3)}) == 40


def test_all_keys_of_a_slot_are_in_one_part_of_a_cluster() -> None:
    slots = SlotKeys("default", "x")
    for slot in range(SLOTS):
        keys = [*slots.keys(slot), slots.token(slot, "0" * 32)]
        assert len({key_slot(key.encode()) for key in keys}) == 1


DAY = timedelta(days=1)
HOUR = 3_600_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of our own, so that its history can be changed."""
    with running(tmp_path_factory.mktemp("own"), ("--save", "")) as (server,):
        yield server


@pytest.fixture
def own(server: Server) -> Iterator[tuple[Bench, Server]]:
    made = Bench(f"redis://127.0.0.1:{server.port}/0")
    yield made, server
    made.close()


def change_history(server: Server) -> None:
    """What was a replica for a moment has a new history."""
    server("REPLICAOF", "127.0.0.1", 1)
    server("REPLICAOF", "NO", "ONE")


class TestKnownTotals:
    def test_a_lease_is_for_all_of_the_slot_and_one_at_a_time(self, bench: Bench) -> None:
        bench.add(a=1)
        first, second = bench.look("a", age=HOUR)["a"], bench.look("a", age=HOUR)["a"]
        assert first.lease.version == second.lease.version
        bench.send(bench.pending.fill({"a": (10, first.lease)}))
        found = bench.look("a", age=HOUR)["a"]
        assert (found.total, found.pending) == (10, 1)
        assert bench.look("a")["a"].total is None

    @pytest.mark.parametrize("event", ["seal", "land", "both"])
    def test_a_lease_ends_with_a_flush(self, bench: Bench, event: str) -> None:
        bench.add(a=1)
        if event == "land":
            bench.pending.cut()
        lease = bench.look("a", age=HOUR)["a"].lease
        if event == "seal":
            bench.pending.cut()
        else:
            bench.land()
        bench.send(bench.pending.fill({"a": (10, lease)}))
        assert bench.look("a", age=HOUR)["a"].total is None

    def test_an_older_total_does_not_replace_a_newer_one(self, bench: Bench) -> None:
        bench.add(a=1)
        version, moment = bench.look("a", age=HOUR)["a"].lease
        bench.send(bench.pending.fill({"a": (10, Lease(version, moment))}))
        bench.send(bench.pending.fill({"a": (9, Lease(version, moment - 1))}))
        assert bench.look("a", age=HOUR)["a"].total == 10
        bench.send(bench.pending.fill({"a": (11, Lease(version, moment + 1))}))
        assert bench.look("a", age=HOUR)["a"].total == 11

    def test_none_is_young_enough_for_zero(self, bench: Bench) -> None:
        """Not even one of this millisecond, or of a clock that was set back."""
        bench.add(a=1, b=1)
        for moment in (0, HOUR):
            for name in "ab":
                lease = bench.look(name, age=0)[name].lease
                later = Lease(lease.version, lease.moment + moment)
                bench.send(bench.pending.fill({name: (10, later)}))
            known = bench.look("a", "b", age=1 if moment else HOUR)
            assert [one.total for one in known.values()] == [10, 10]
            assert [one.total for one in bench.look("a", "b", age=0).values()] == [None, None]
            pairs = bench.add(0, a=1), bench.add(0, a=1, b=1)
            assert {total for pair in pairs for total, _ in pair.values()} == {None}
            once = bench.pending.add_once("a", Delta("a", 1), mint(clock.utc()).hex, 0, (DAY, DAY))
            assert bench.send(once)[0].total is None
            assert bench.send(bench.pending.add_only("a", 1, 0)) is None

    def test_a_maximum_takes_what_its_caller_has_just_asked_for(self, bench: Bench) -> None:
        """Its total is too old for others in the same millisecond, and goes by its lease."""
        bench.add(a=1)
        found = bench.send(bench.pending.maximum("a", 100, 0, None))
        assert (found.total, found.asked) == (None, False)
        bench.send(bench.pending.fill({"a": (10, found.lease)}))
        assert bench.send(bench.pending.maximum("a", 100, 0, None)).total is None
        assert bench.send(bench.pending.maximum("a", 100, 0, (found.lease, 10))) == (100, 89)


class TestAcknowledge:
    def test_it_removes_that_one_alone(self, bench: Bench) -> None:
        bench.add(a=1)
        (sealed,) = bench.sealed()
        bench.pending.acknowledge({sealed._replace(generation="0" * 32): ()})
        assert bench.look("a")["a"].pending == 1
        for _ in range(2):
            bench.pending.acknowledge({sealed: ()})
            assert bench.look("a")["a"].pending == 0
        assert bench.hash(slot_of("a"), 0)["\0b"] == ""

    def test_it_is_not_folded_twice(self, bench: Bench) -> None:
        bench.add(a=5)
        bench.fill("a", 100)
        (sealed,) = bench.sealed()
        for _ in range(3):
            bench.pending.acknowledge({sealed: ()})
        # Whether it is part of a known total cannot be told the second time.
        assert bench.look("a", age=HOUR)["a"].total in (105, None)


@needs_redis
class TestAnotherHistory:
    def test_nothing_is_added_to_what_is_of_another_history(
        self, own: tuple[Bench, Server]
    ) -> None:
        bench, server = own
        bench.add(a=1)
        slot, before = slot_of("a"), bench.hash(slot_of("a"), 0)
        change_history(server)
        assert bench.add(a=2) == {"a": (None, 3)}
        assert bench.hash(slot, 2) == before
        opened = bench.hash(slot, 0)
        assert (opened["a"], opened["\0o"]) == ("2", before["\0g"])
        assert opened["\0t"] == server("INFO", "replication")["master_replid"] != before["\0t"]

    @pytest.mark.parametrize("verb", ["look", "add", "add_once", "fill", "acknowledge"])
    def test_totals_of_another_history_are_not_known(
        self, own: tuple[Bench, Server], verb: str
    ) -> None:
        bench, server = own
        bench.add(a=1)
        bench.fill("a", 100)
        lease = bench.look("b", "a", age=HOUR)["a"]
        assert lease.total == 100
        version = bench.hash(slot_of("a"), 1)["\0v"]
        sealed = bench.sealed() if verb == "acknowledge" else []
        change_history(server)
        if verb == "add":
            assert bench.add(HOUR, a=1) == {"a": (None, 2)}
        elif verb == "add_once":
            once = bench.pending.add_once(
                "a", Delta("a", 1), mint(clock.utc()).hex, HOUR, (DAY, DAY)
            )
            assert bench.send(once)[0].total is None
        elif verb == "fill":
            bench.send(bench.pending.fill({"a": (7, Lease(version, 2**52))}))
        bench.pending.acknowledge(dict.fromkeys(sealed, ()))
        assert bench.look("a", age=HOUR)["a"].total is None
