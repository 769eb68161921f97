"""Many actors of one counter wait in Redis: what waits there is bounded, and lands."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in, slots_of
from django_counters.contrib import series, uniques
from django_counters.contrib.series import Series
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.contrib.uniques.options import MEMBER
from django_counters.contrib.uniques.sketches import KEPT, MEMBERS, Sketch
from django_counters.measure import REGISTERS
from django_counters.models import Counter, CounterIncident
from django_counters.redis.keys import RANKS, cell_field, cell_in, set_in, slot_of
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import Cell, Delta, Effect
from tests.cached.test_flush import STEPS, Killed, kill_at
from tests.series.cells import land
from tests.series.test_cells_landing import pending_prefix

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "hits:page"
LARGE = 20_000
THREE_SIGMA = 3 * 0.0081


@pytest.fixture(autouse=True)
def _cached(cached: str) -> Iterator[None]:
    options: dict[str, Any] = {"STRATEGY": "cached", "UNIQUE": ["day"], "TAGS": {"country": 2}}
    with override_counters(hits={**options, "OPTIONS": {"timeout": 10}}):
        yield


def days() -> Series:
    return series.of(KEY).per("day").last(1)


def count(people: range, **event: Any) -> None:
    """Let people come in calls of many and of one, which are different ways in Redis."""
    with Counter.objects.collect():
        for who in people[10:]:
            Counter.objects.increment(KEY, who=who, **event)
    for who in people[:10]:
        Counter.objects.increment(KEY, who=who, **event)


def waiting() -> dict[str, str]:
    """The fields of the open generation of our counter."""
    where = slots_of("default", pending_prefix()).keys(slot_of(KEY))[0]
    words = pending_in("default", 10, "default")._client.call("HGETALL", where, key=where)
    return dict(zip(words[::2], words[1::2], strict=True))


def redis(*words: str) -> Any:
    where = slots_of("default", pending_prefix()).keys(slot_of(KEY))[0]
    return pending_in("default", 10, "default")._client.call(words[0], where, *words[1:], key=where)


def members(fields: dict[str, str]) -> list[int]:
    found = [cell_in(field) for field in fields if not set_in(field)]
    return [where[1].values[-1] for where in found if where and where[1].kind is MEMBER]


def test_what_waits_is_bounded() -> None:
    for begin in range(0, LARGE, 1000):
        count(range(begin, begin + 1000))
    fields = waiting()
    assert len(members(fields)) == KEPT
    assert len(fields) < 600
    where = slots_of("default", pending_prefix()).keys(slot_of(KEY))[0]
    client = pending_in("default", 10, "default")._client
    assert client.call("MEMORY", "USAGE", where, "SAMPLES", 0, key=where) < 200_000
    land()
    unique = uniques.count(days())
    assert abs(unique - LARGE) < THREE_SIGMA * LARGE
    assert Counter.objects.value(KEY) == LARGE
    count(range(LARGE))
    land()
    assert uniques.count(days()) == unique


def test_registers_are_those_of_the_sketch() -> None:
    """All members that waited, named or not, make the sketch that Python makes of them."""
    chosen = Random(7)
    ends = [1, 1 << 51, 1 << 14, 5 << 14, REGISTERS - 1, MEMBERS, MEMBERS - REGISTERS + 1]
    came = [*chosen.sample(range(1, MEMBERS), KEPT), *ends]
    came += [chosen.randrange(1, MEMBERS) >> 30 << 30 for _ in range(200)]
    came = [member for member in dict.fromkeys(came) if member]
    start = clock.utc().replace(hour=0, minute=0, second=0, microsecond=0)
    pending = pending_in("default", 10, "default")
    Counter.objects.increment(KEY, who=0)
    (field,) = (field for field in waiting() if field.startswith("#") and not set_in(field))
    flush()
    found = cell_in(field)
    assert found
    measure, period, _, *rest = found[1].values
    for begin in range(0, len(came), 7):
        effects = tuple(
            Effect(Cell(MEMBER, (measure, period, start, rest[0], member)), 1)
            for member in came[begin : begin + 7]
        )
        pending.send(pending.add({KEY: Delta(KEY, 1, effects=effects)}, -1))
    assert len(members(waiting())) == KEPT
    land()
    stored, wanted = CounterUnique.objects.get(start=start), Sketch.of(came)
    assert stored.kind == wanted.kind
    # Place by place: to show how two long texts differ takes pytest minutes.
    ranks = enumerate(zip(bytes(stored.body), wanted.body, strict=True))
    assert [(place, *both) for place, both in ranks if len(set(both)) > 1] == []


def test_512_are_exact() -> None:
    count(range(KEPT))
    count(range(KEPT))
    assert not [field for field in waiting() if field.startswith(RANKS)]
    land()
    unique = uniques.count(days())
    assert (unique, unique.is_exact) == (KEPT, True)


def test_each_set_has_its_own_bound() -> None:
    count(range(KEPT), tags={"country": "DE"})
    count(range(KEPT), tags={"country": "FR"})
    land()
    by = uniques.count_by(days().by("country"))
    assert by == {"DE": KEPT, "FR": KEPT}
    assert all(unique.is_exact for unique in by.values())


def test_one_who_is_there_does_not_fill_it() -> None:
    for _ in range(3):
        count(range(400))
    amounts = {text for name, text in waiting().items() if not name.startswith("\0")}
    assert amounts == {"1200", "3", "400"}


def test_an_older_process_counts_no_members() -> None:
    """Its fields are members all the same; nobody has counted them."""
    Counter.objects.increment(KEY, who="first")
    (field,) = (field for field in waiting() if field.startswith("#") and not set_in(field))
    found = cell_in(field)
    assert found
    for member in range(1, 301):
        redis("HSET", cell_field(Cell(MEMBER, (*found[1].values[:-1], member)), KEY), "1")
    land()
    assert uniques.count(days()) == 301
    count(range(KEPT + 100))
    for member in range(1, 301):
        redis("HSET", cell_field(Cell(MEMBER, (*found[1].values[:-1], member)), KEY), "1")
    land()
    everybody = KEPT + 100 + 300 + 1
    assert abs(uniques.count(days()) - everybody) < THREE_SIGMA * everybody


@pytest.mark.parametrize("step", STEPS)
def test_one_that_dies_is_finished_by_the_next(step: str) -> None:
    crowd = range(KEPT + 200)
    count(crowd)
    with pytest.raises(Killed):
        flush(step=kill_at(step))
    count(crowd)
    land()
    assert abs(uniques.count(days()) - len(crowd)) < THREE_SIGMA * len(crowd)
    assert Counter.objects.value(KEY) == 2 * len(crowd)
    assert not CounterIncident.objects.exists()
    (body,) = CounterUnique.objects.values_list("body", flat=True)
    land()
    assert bytes(CounterUnique.objects.get().body) == bytes(body)


def test_what_a_total_refuses_its_sets_refuse() -> None:
    Counter._base_manager.create(key=KEY, value=2**63 - 2)
    count(range(KEPT + 100))
    assert flush().quarantined == {KEY: KEPT + 100}
    assert not CounterUnique.objects.exists()


def test_values_that_are_not_counted_apart_are_one_set() -> None:
    for begin, country in enumerate(("DE", "FR", "IT", "ES")):
        count(range(begin * 600, begin * 600 + 600), tags={"country": country})
    land()
    by = uniques.count_by(days().by("country"))
    assert len(by) == 3  # two of the four, as they happen to land
    for country, unique in by.items():
        people = 1200 if country == "~" else 600
        assert abs(unique - people) < THREE_SIGMA * people


def test_tokens_name_their_actors() -> None:
    """Each of them is a field anyway, as it may be asked for again."""
    count(range(KEPT))
    token = mint(clock.utc())
    for _ in range(2):
        Counter.objects.increment(KEY, who="late", token=token)
    land()
    assert (uniques.count(days()).is_exact, CounterMember.objects.count()) == (False, 0)
    assert Counter.objects.value(KEY) == KEPT + 1


def test_what_is_no_chunk_is_told_of() -> None:
    count(range(KEPT + 100))
    field = next(field for field in waiting() if field.startswith(RANKS))
    strange = {
        field: "0" * 255,
        field.replace(RANKS, "#r64", 1): "0" * 256,
        field.replace(RANKS, "#rx", 1): "0" * 256,
        field.replace(field.partition(".")[0], "#q"): "1",
        # The bytes of another program aren't text.
        field.replace(KEY, "\udc80"): "0" * 256,
    }
    for name, text in strange.items():
        redis("HSET", name, text)
    flush()
    told = {name.replace("\udc80", r"\x80") for name in strange}
    assert set(CounterIncident.objects.get().detail["fields"]) == told
    assert Counter.objects.value(KEY) == KEPT + 100
    assert abs(uniques.count(days()) - KEPT - 100) < THREE_SIGMA * (KEPT + 100)
