"""What waits in one Redis: requests, what their answers mean, and what is told of it."""

from __future__ import annotations

import os
import re
import secrets
import zlib
from collections.abc import Iterator
from itertools import count, islice
from typing import Any
from uuid import UUID

import pytest
import redis
from redis.crc import key_slot

from django_counters import clock
from django_counters.exceptions import (
    CounterError,
    CounterOverflow,
    CounterUnavailable,
    OutcomeUnknown,
    TokenConflict,
)
from django_counters.stores.redis.addresses import address_of
from django_counters.stores.redis.commands import Refused
from django_counters.stores.redis.keys import SLOTS, Slots, proposed, slot_of
from django_counters.stores.redis.pending import RedisPending
from django_counters.stores.redis.requests import Requests, found_in
from django_counters.tokens import mint, moment_of
from tests.stores.redis.proxy import Proxy

DEAD = "redis://127.0.0.1:1/0"


class Bench:
    """What waits in one Redis, under a name of its own, and a look at the keys behind it."""

    def __init__(self, url: str) -> None:
        self.using = f"test{secrets.token_hex(4)}"
        self.pending = RedisPending(self.using, address_of(url, {"timeout": 10}))
        self.slots = Slots(self.using)
        self.direct: Any = redis.Redis.from_url(url, decode_responses=True, protocol=2)

    def send(self, request: Any) -> Any:
        return self.pending.send(request)

    def add(self, age: int = -1, **deltas: int) -> dict[str, tuple[int | None, int]]:
        found = self.send(self.pending.add(deltas, age)).found
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


def of_slot(slot: int, how_many: int, salt: int = 0) -> list[str]:
    names = (f"n{salt}:{number}" for number in count())
    return list(islice((name for name in names if slot_of(name) == slot), how_many))


@pytest.fixture
def using() -> Iterator[str]:
    """The name of a database that nobody else has; what it left in Redis is deleted."""
    name = f"test{secrets.token_hex(4)}"
    yield name
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        if keys := list(client.scan_iter(f"djc:{{{name}*", count=1000)):
            client.delete(*keys)


def at(url: str, using: str, timeout: float = 10) -> RedisPending:
    return RedisPending(using, address_of(url, {"timeout": timeout}))


@pytest.fixture
def pending(using: str) -> RedisPending:
    return at(os.environ["REDIS_URL"], using)


class TestSlots:
    def test_a_counter_has_one_for_ever(self) -> None:
        # As they are in Redis already: another function would lose them.
        assert [slot_of(key) for key in ("views:a", "größe", "")] == [
            zlib.crc32(key.encode()) % 16 for key in ("views:a", "größe", "")
        ]
        assert (slot_of("views:a"), slot_of("views:b"), SLOTS) == (11, 1, 16)

    def test_a_new_generation_has_its_slot_and_its_time(self) -> None:
        before = clock.utc()
        made = [proposed(slot) for slot in range(SLOTS)]
        assert [int(each[-2:], 16) for each in made] == list(range(SLOTS))
        assert len({*made, proposed(0)}) == SLOTS + 1
        for each in made:
            assert re.fullmatch("[0-9a-f]{32}", each)
            assert abs((moment_of(UUID(each)) - before).total_seconds()) < 60


class TestRequests:
    def test_all_slots_are_one_command(self) -> None:
        names = [f"n{number}" for number in range(100)]
        together = Requests("r", Slots("x"), together=True)
        apart = Requests("r", Slots("x"), together=False)
        for request in (together.add(dict.fromkeys(names, 1), -1), together.look(names, -1)):
            (command,) = request.commands
            assert len(command.keys) == 10 * SLOTS
        for request in (apart.add(dict.fromkeys(names, 1), -1), apart.look(names, -1)):
            assert len(request.commands) == SLOTS
            assert {len(command.keys) for command in request.commands} == {10}

    def test_a_cluster_answers_the_same(self, using: str) -> None:
        names = {f"n{number}": number + 1 for number in range(100)}
        pending = at(os.environ["REDIS_URL"], using)
        apart: Any = at(os.environ["REDIS_URL"], using)
        apart._together = False
        found = apart.send(apart.add(names, -1)).found
        assert {name: each.pending for name, each in found.items()} == names
        looked: Any = pending.send(pending.look(names, -1))
        assert {name: each.pending for name, each in looked.items()} == names

    def test_what_part_of_a_cluster_refuses(self, using: str) -> None:
        apart: Any = at(os.environ["REDIS_URL"], using)
        apart._together = False
        apart.send(apart.add({"views:a": 2**62}, -1))
        added = apart.send(apart.add({"views:a": 2**62, "views:b": 1}, -1))
        assert (set(added.found), set(added.refused)) == ({"views:b"}, {"views:a"})
        assert isinstance(added.refused["views:a"], CounterOverflow)


class TestAnswers:
    def test_a_total_that_is_known(self) -> None:
        found = found_in("250 9223372036854775807 1 -3")
        assert (found.total, found.pending, found.age) == (2**63 - 1, -2, 250)
        assert found_in("0 -5").pending == 0

    def test_one_that_is_not(self) -> None:
        found = found_in(f"? lease 1234 {'a' * 32} 9007199254740993 {'b' * 32} -1")
        assert found.total is None
        assert found.pending == 9007199254740992
        assert found.waits == (("a" * 32, 9007199254740993), ("b" * 32, -1))
        assert found.lease == ("lease", 1234)
        assert found_in("? - 1234").lease is None

    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            *((code, CounterUnavailable) for code in ("OOM", "READONLY", "LOADING", "MISCONF")),
            *((code, CounterUnavailable) for code in ("CLUSTERDOWN", "NOAUTH", "NOPERM", "BUSY")),
            ("RINGFULL", CounterUnavailable),
            ("OVERFLOW", CounterOverflow),
            ("CONFLICT", TokenConflict),
            # A script that broke off may have written something.
            ("ERR", OutcomeUnknown),
            ("WRONGTYPE", OutcomeUnknown),
            ("SOMETHING", OutcomeUnknown),
        ],
    )
    def test_what_an_error_means(self, error: str, kind: type[CounterError]) -> None:
        meant = Requests("r", Slots("x"), together=True).meaning(Refused(error, "views:a"))
        assert type(meant) is kind
        assert str(meant)


class TestSending:
    def test_what_counts_and_is_lost_is_unknown(self, using: str, proxy: Proxy) -> None:
        pending = at(proxy.url, using, timeout=0.5)
        pending.send(pending.add({"views:a": 1}, -1))
        pending.send(pending.add_once("views:a", 1, mint(clock.utc()).hex, -1, 1000))
        requests: list[Any] = [
            pending.add({"views:a": 1}, -1),
            pending.add_once("views:a", 1, mint(clock.utc()).hex, -1, 1000),
        ]
        for request in requests:
            proxy.lose("swallow")
            with pytest.raises(OutcomeUnknown):
                pending.send(request)
        assert pending.send(pending.look(["views:a"], -1))["views:a"].pending == 4

    def test_what_reads_and_is_lost_is_not_reached(self, using: str, proxy: Proxy) -> None:
        pending = at(proxy.url, using, timeout=0.5)
        pending.send(pending.look(["views:a"], -1))
        for call in (
            lambda: pending.send(pending.look(["views:a"], -1)),
            pending.cut,
            pending.waiting,
        ):
            proxy.lose("swallow")
            with pytest.raises(CounterUnavailable):
                call()

    def test_where_nobody_is(self, using: str) -> None:
        pending = at(DEAD, using)
        requests: list[Any] = [pending.add({"a": 1}, -1), pending.look(["a"], -1)]
        for request in requests:
            with pytest.raises(CounterUnavailable) as caught:
                pending.send(request)
            assert caught.value.using == "redis:127.0.0.1:1/0"


class TestWaiting:
    def test_how_much_waits(self, pending: RedisPending) -> None:
        slot = slot_of("views:a")
        assert {(each.open, each.places, each.sealed) for each in pending.waiting()} == {(0, 0, 0)}
        pending.send(pending.add({"views:a": 1}, -1))
        waiting = pending.waiting()[slot]
        assert (waiting.open, waiting.places, waiting.oldest) == (1, 0, "")
        first = waiting.generation
        pending.cut()
        pending.send(pending.add({"views:a": 1}, -1))
        waiting = pending.waiting()[slot]
        assert (waiting.open, waiting.places, waiting.sealed, waiting.oldest) == (1, 1, 1, first)

    def test_asking_changes_nothing(self, pending: RedisPending, using: str) -> None:
        pending.waiting()
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            assert not list(client.scan_iter(f"djc:{{{using}*", count=1000))


class TestFlight:
    def test_one_at_a_time(self, pending: RedisPending) -> None:
        with pending.flight() as first:
            with pending.flight() as second:
                assert (first is None, second is None) == (False, True)
            # Who did not have it does not let go of it.
            with pending.flight() as third:
                assert third is None
        with pending.flight() as fourth:
            assert fourth is not None

    def test_one_that_takes_long_says_that_it_goes_on(
        self, pending: RedisPending, using: str
    ) -> None:
        key = Slots(using).flight
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client, pending.flight() as goes_on:
            assert goes_on is not None
            client.pexpire(key, 1000)
            goes_on()
            assert client.pttl(key) > 5000
            client.set(key, "another")
            goes_on()
            assert client.get(key) == b"another"

    def test_it_ends_with_an_error_and_by_itself(self, pending: RedisPending, using: str) -> None:
        with pytest.raises(KeyError), pending.flight():
            raise KeyError
        with pending.flight() as first:
            assert first is not None
            with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
                assert 0 < client.pttl(Slots(using).flight) <= 60_000

    def test_one_that_ran_out_does_not_end_that_of_another(
        self, pending: RedisPending, using: str
    ) -> None:
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            with pending.flight():
                client.set(Slots(using).flight, "another")
            assert client.get(Slots(using).flight) == b"another"


def test_what_the_server_says_of_itself(pending: RedisPending) -> None:
    assert re.fullmatch("[0-9a-f]{40}", pending.information("replication")["master_replid"])


def test_a_prefix_is_a_digest() -> None:
    plain, other = Slots("default").keys(3), Slots("default", "shop}*").keys(3)
    assert plain[0] == "djc:{default:3}:p"
    assert re.fullmatch(r"djc:\{default:[0-9a-f]{12}:3\}:p", other[0])
    assert len({*plain, *other, *Slots("other").keys(3)}) == 30


def test_all_keys_of_a_slot_are_in_one_part_of_a_cluster() -> None:
    slots = Slots("default", "x")
    for slot in range(SLOTS):
        keys = [*slots.keys(slot), slots.token(slot, "0" * 32)]
        assert len({key_slot(key.encode()) for key in keys}) == 1
