"""The verbs that Redis runs, on real servers: what each writes, answers and refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from django_counters import clock
from django_counters.exceptions import CounterOverflow, CounterUnavailable, TokenConflict
from django_counters.stores.base import Lease
from django_counters.stores.redis.keys import PLACES, SLOTS, slot_of
from django_counters.tokens import mint
from tests.stores.redis.servers import Server, needs_redis, running
from tests.stores.redis.test_pending import Bench, of_slot

HOUR = 3_600_000


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(os.environ["REDIS_URL"])
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Bench, Server]]:
    """A server of our own, so that its history can be changed."""
    with running(tmp_path, ("--save", "")) as (server,):
        made = Bench(f"redis://127.0.0.1:{server.port}/0")
        yield made, server
        made.direct.close()


def change_history(server: Server) -> None:
    """What was a replica for a moment has a new history."""
    server("REPLICAOF", "127.0.0.1", 1)
    server("REPLICAOF", "NO", "ONE")


class TestAdd:
    def test_it_adds_and_answers_what_waits(self, bench: Bench) -> None:
        assert bench.add(a=5, b=-2) == {"a": (None, 5), "b": (None, -2)}
        assert bench.add(a=-7) == {"a": (None, -2)}
        assert bench.look("a", "b", "c")["c"].pending == 0
        assert bench.hash(slot_of("a"), 0)["a"] == "-2"

    def test_the_meta_fields(self, bench: Bench) -> None:
        bench.add(a=1)
        opened = bench.hash(slot_of("a"), 0)
        assert set(opened) == {"a", "\0g", "\0t", "\0b", "\0o"}
        assert re.fullmatch("[0-9a-f]{30}" + f"{slot_of('a'):02x}", opened["\0g"])
        history = bench.direct.info("replication")["master_replid"]
        assert (opened["\0t"], opened["\0b"], opened["\0o"]) == (history, "", "")

    def test_an_amount_is_a_text_all_the_way(self, bench: Bench) -> None:
        for by in (2**53 + 1, 2**62 - 2**53, -(2**62) + 7):
            name = f"n{abs(by)}"
            assert bench.add(**{name: by}) == {name: (None, by)}
            bench.fill(name, 2**62 + 1)
            assert bench.add(HOUR, **{name: 1}) == {name: (2**62 + 1, by + 1)}

    def test_all_or_none(self, bench: Bench) -> None:
        bench.add(a=2**62)
        before = bench.everything()
        many = {f"x{number}": 1 for number in range(50)}
        with pytest.raises(CounterOverflow):
            added = bench.send(bench.pending.add({**many, "a": 1000}, -1))
            raise next(iter(added.refused.values()))
        assert bench.everything() == before == {"a": str(2**62)}

    def test_any_number_of_counters(self, bench: Bench) -> None:
        names = {f"n{number}": number + 1 for number in range(20_000)}
        found = bench.add(**names)
        assert {name: pending for name, (_, pending) in found.items()} == names


class TestKnownTotals:
    def test_a_lease_is_for_all_of_the_slot_and_one_at_a_time(self, bench: Bench) -> None:
        bench.add(a=1)
        first, second = bench.look("a", age=HOUR)["a"], bench.look("a", age=HOUR)["a"]
        assert first.lease.version == second.lease.version
        bench.send(bench.pending.fill({"a": (10, first.lease)}))
        found = bench.look("a", age=HOUR)["a"]
        assert (found.total, found.pending) == (10, 1)
        assert bench.look("a")["a"].total is None

    def test_without_a_lease_nothing_is_filled_in(self, bench: Bench) -> None:
        bench.add(a=1)
        moment = bench.look("a", age=HOUR)["a"].lease.moment
        for version in ("", "0" * 32, "-"):
            bench.send(bench.pending.fill({"a": (10, Lease(version, moment))}))
        assert bench.look("a", age=HOUR)["a"].total is None

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

    def test_what_has_landed_is_added_to_what_is_known(self, bench: Bench) -> None:
        bench.add(a=5, b=3)
        bench.fill("a", 100)
        bench.land()
        found = bench.look("a", "b", age=HOUR)
        assert (found["a"].total, found["a"].pending) == (105, 0)
        assert found["b"].total is None

    def test_what_was_refused_is_forgotten(self, bench: Bench) -> None:
        bench.add(a=5)
        bench.fill("a", 100)
        bench.pending.acknowledge({one: ["a"] for one in bench.sealed()})
        assert bench.look("a", age=HOUR)["a"].total is None

    def test_they_have_a_ttl_and_nothing_else_has(self, bench: Bench) -> None:
        bench.add(**{f"n{number}": 1 for number in range(100)})
        bench.pending.cut()
        bench.add(**{f"n{number}": 1 for number in range(100)})
        bench.look(*(f"n{number}" for number in range(100)), age=0)
        token = mint(clock.utc()).hex
        bench.send(bench.pending.add_once("n1", 1, token, -1, 5000))
        kinds = {key: key.rpartition(":")[2] for key in bench.names()}
        ttls = {key: bench.direct.pttl(key) for key in kinds}
        assert sorted(set(kinds.values()) - {token}) == ["b0", "c", "p"]
        for key, kind in kinds.items():
            if kind == "c":
                assert 0 < ttls[key] <= HOUR
            elif kind == token:
                assert 0 < ttls[key] <= 5000
            else:
                assert ttls[key] == -1


class TestAddOnce:
    def test_it_counts_once_and_answers_the_same(self, bench: Bench) -> None:
        token = mint(clock.utc()).hex
        once = bench.pending.add_once("a", 5, token, HOUR, 60_000)
        first, used = bench.send(once)
        assert (first.pending, used) == (5, False)
        bench.add(a=1)
        for _ in range(2):
            _, used = bench.send(bench.pending.add_once("a", 5, token, HOUR, 60_000))
            assert used
        assert bench.look("a")["a"].pending == 6
        assert bench.hash(slot_of("a"), 0)["\0k" + token] == "5 a"

    @pytest.mark.parametrize(("name", "by"), [("a", 6), ("a", -5)])
    def test_for_something_else_it_is_a_conflict(self, bench: Bench, name: str, by: int) -> None:
        token = mint(clock.utc()).hex
        bench.send(bench.pending.add_once("a", 5, token, -1, 60_000))
        with pytest.raises(TokenConflict):
            bench.send(bench.pending.add_once(name, by, token, -1, 60_000))
        assert bench.look("a")["a"].pending == 5

    def test_a_sealed_generation_remembers_it(self, bench: Bench) -> None:
        token = mint(clock.utc()).hex
        bench.send(bench.pending.add_once("a", 5, token, -1, 60_000))
        bench.pending.cut()
        bench.direct.delete(bench.slots.token(slot_of("a"), token))
        _, used = bench.send(bench.pending.add_once("a", 5, token, -1, 60_000))
        assert used
        assert bench.look("a")["a"].pending == 5

    def test_what_overflows_uses_no_token(self, bench: Bench) -> None:
        bench.add(a=2**62)
        token = mint(clock.utc()).hex
        with pytest.raises(CounterOverflow):
            bench.send(bench.pending.add_once("a", 2**62, token, -1, 60_000))
        assert not bench.direct.exists(bench.slots.token(slot_of("a"), token))
        assert "\0k" + token not in bench.hash(slot_of("a"), 0)


class TestCut:
    def test_it_seals_what_is_open_and_opens_the_next(self, bench: Bench) -> None:
        bench.add(a=1)
        slot = slot_of("a")
        before = bench.hash(slot, 0)
        cut = bench.pending.cut()[slot]
        (sealed,) = cut.sealed
        assert (sealed.generation, sealed.before, sealed.fields) == (before["\0g"], "", 1)
        assert (cut.before, cut.generation) == (before["\0g"], bench.hash(slot, 0)["\0g"])
        assert bench.hash(slot, 2) == before
        assert bench.hash(slot, 0)["\0b"] == "0"

    def test_while_something_is_sealed_it_seals_nothing(self, bench: Bench) -> None:
        bench.add(a=1)
        slot = slot_of("a")
        first = bench.pending.cut()[slot]
        bench.add(a=2)
        second = bench.pending.cut()[slot]
        assert [one.generation for one in second.sealed] == [one.generation for one in first.sealed]
        assert (second.generation, second.fields) == (first.generation, 1)

    def test_what_is_empty_is_not_sealed(self, bench: Bench) -> None:
        first = bench.pending.cut()
        second = bench.pending.cut()
        assert [cut.generation for cut in first] == [cut.generation for cut in second]
        assert not any(cut.sealed for cut in second)
        assert len({cut.generation for cut in first}) == SLOTS


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

    @pytest.mark.parametrize("total", [2**63 - 1, -(2**63), 2**62, -(2**62)])
    @pytest.mark.parametrize("by", [2**62, -(2**62)])
    def test_a_total_of_any_size(self, bench: Bench, total: int, by: int) -> None:
        bench.add(a=by, z=1)
        bench.fill("a", total)
        bench.fill("z", 10)
        bench.land()
        assert bench.look("a", age=HOUR)["a"].total in (None, total + by)
        assert bench.hash(slot_of("a"), 2) == {}
        assert bench.look("z", age=HOUR)["z"].total == 11


class TestContents:
    def test_what_is_in_it(self, bench: Bench) -> None:
        names = of_slot(7, 3000)
        token = mint(clock.utc()).hex
        bench.add(**dict.fromkeys(names, 2))
        bench.send(bench.pending.add_once(names[0], -9, token, -1, 60_000))
        (sealed,) = bench.sealed()
        contents = bench.pending.contents(sealed)
        assert contents is not None
        assert contents.sums == {**dict.fromkeys(names, 2), names[0]: -7}
        assert {UUID(each).hex: told for each, told in contents.tokens.items()} == {
            token: (names[0], -9)
        }

    def test_of_one_that_is_gone_there_are_none(self, bench: Bench) -> None:
        bench.add(a=1)
        (sealed,) = bench.sealed()
        bench.land()
        assert bench.pending.contents(sealed) is None
        bench.add(a=2)
        bench.pending.cut()
        # Another one stands in its place.
        assert bench.pending.contents(sealed) is None

    @needs_redis
    def test_its_pages_may_be_empty(self, own: tuple[Bench, Server]) -> None:
        """The last page of a thousand fields often is."""
        bench, _ = own
        for slot in range(12):
            names = of_slot(slot, 996, salt=slot)
            bench.add(**dict.fromkeys(names, 1))
        for sealed in bench.sealed():
            contents = bench.pending.contents(sealed)
            assert contents is not None
            assert (len(contents.sums), set(contents.sums.values())) == (996, {1})


class TestAnotherHistory:
    @pytest.fixture(autouse=True)
    def skipped(self) -> None:
        if needs_redis.args[0]:
            pytest.skip(needs_redis.kwargs["reason"])

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
            once = bench.pending.add_once("a", 1, mint(clock.utc()).hex, HOUR, 1000)
            assert bench.send(once)[0].total is None
        elif verb == "fill":
            bench.send(bench.pending.fill({"a": (7, Lease(version, 2**52))}))
        bench.pending.acknowledge(dict.fromkeys(sealed, ()))
        assert bench.look("a", age=HOUR)["a"].total is None

    def test_a_full_ring_refuses_and_still_answers(self, own: tuple[Bench, Server]) -> None:
        bench, server = own
        for _ in range(PLACES + 1):
            bench.add(a=1)
            change_history(server)
        with pytest.raises(CounterUnavailable, match="RINGFULL"):
            raise next(iter(bench.send(bench.pending.add({"a": 1}, -1)).refused.values()))
        with pytest.raises(CounterUnavailable, match="RINGFULL"):
            once = bench.pending.add_once("a", 1, mint(clock.utc()).hex, -1, 1000)
            bench.send(once)
        assert bench.look("a")["a"].pending == PLACES + 1
        assert len(bench.sealed()) == PLACES
        bench.land()
        assert bench.add(a=1) == {"a": (None, 2)}


def test_no_word_of_a_user_is_in_a_key(bench: Bench) -> None:
    words = ["secret", "se{cr}et", "*", "größe"]
    bench.add(**dict.fromkeys(words, 1))
    bench.look(*words, age=0)
    for word in words:
        bench.send(bench.pending.add_once(word, 1, mint(clock.utc()).hex, 0, 1000))
    shape = rf"djc:\{{{bench.using}:(\d|1[0-5])\}}:(p|c|f|b[0-7]|t:[0-9a-f]{{32}})"
    assert bench.names()
    assert [key for key in bench.names() if not re.fullmatch(shape, key)] == []
