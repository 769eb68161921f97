"""Each message of a stream is counted once, whoever reads it and whatever becomes of the stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import ProgrammingError
from django.test import override_settings

from django_counters.contrib import series
from django_counters.contrib.streams import DecodeFailed
from django_counters.contrib.streams.consuming import Consumed
from django_counters.contrib.streams.redis import RedisStream
from django_counters.errors import CounterUnavailable, InvalidConfiguration
from django_counters.models import Counter, CounterIncident, CounterPosition
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position
from django_counters.testing import assert_counts, override_counters
from tests.redis.counting import eventually
from tests.stores.test_failures import beside
from tests.streams.conftest import Clicks

pytestmark = pytest.mark.django_db(transaction=True)


def positions() -> dict[str, str]:
    return {part: at for part, (at, _) in registry.positions("default").of("stream clicks").items()}


def test_pages_of_all_parts_are_counted_once(clicks: Clicks) -> None:
    first = clicks.add("a", "b", "a")
    second = clicks.add("a", part=1, by="5")
    consumer = clicks.consumer()
    done = consumer.turn()
    assert (done.pages, done.messages, done.poison, done.busy) == (2, 4, 0, [])
    assert_counts({"a": 7, "b": 1, "all": 4})
    assert positions() == {clicks.parts[0]: first[-1], clicks.parts[1]: second[-1]}
    for again in (consumer, clicks.consumer()):
        assert again.turn().messages == 0
    clicks.add("b")
    assert clicks.consumer().turn().messages == 1
    assert_counts({"a": 7, "b": 2, "all": 5})
    assert not CounterIncident.objects.exists()


def test_a_page_has_so_many_messages(clicks: Clicks) -> None:
    ids = clicks.add(*"abcdefg")
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(PAGE=3)}):
        consumer = clicks.consumer()
        seen = []
        while done := consumer.turn().messages:
            seen.append((done, positions()[clicks.parts[0]]))
    assert seen == [(3, ids[2]), (3, ids[5]), (1, ids[6])]
    assert_counts({"all": 7})


class TestAhead:
    """The next page is read while one is counted."""

    @pytest.fixture(autouse=True)
    def _pages(self, clicks: Clicks) -> Iterator[None]:
        with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(PAGE=2)}):
            yield

    def test_it_is_there_before_it_is_asked_for(self, clicks: Clicks) -> None:
        clicks.add(*"abcdef")
        consumer = clicks.consumer()
        consumer.turn()
        consumer._ahead._read[clicks.parts[0]][1].result(30)
        clicks.client.delete(clicks.parts[0])
        assert [consumer.turn().messages for _ in range(2)] == [2, 0]
        assert_counts({"c": 1, "d": 1, "e": 0, "all": 4})

    def test_it_counts_where_it_was_read_and_nowhere_else(self, clicks: Clicks) -> None:
        clicks.add(*"abcdefg")
        consumer, other = clicks.consumer(), clicks.consumer()
        assert [one.turn().messages for one in (consumer, other, consumer)] == [2, 2, 2]
        assert [other.turn().messages, consumer.turn().messages] == [1, 0]
        assert_counts({**dict.fromkeys("abcdefg", 1), "all": 7})

    def test_what_is_no_full_page_is_read_again(self, clicks: Clicks) -> None:
        clicks.add(*"abc")
        consumer = clicks.consumer()
        consumer.turn()
        consumer._ahead._read[clicks.parts[0]][1].result(30)
        clicks.add("d")
        assert consumer.turn().messages == 2


def test_a_stream_that_is_not_there_yet(clicks: Clicks) -> None:
    consumer = clicks.consumer()
    assert consumer.turn().messages == 0
    assert positions() == dict.fromkeys(clicks.parts, "")
    clicks.add("a")
    assert consumer.turn().messages == 1


def test_fields_come_as_they_were_written(clicks: Clicks) -> None:
    raw = b'\xff\x00\n"\\ \xc3\xa9 \x7f/'
    clicks.client.xadd(clicks.parts[0], {raw: raw, "number": 1.5})
    stream = RedisStream(os.environ["REDIS_URL"], clicks.parts[0])
    (entry,) = stream.since("", 10).messages
    text = raw.decode(errors="surrogateescape")
    assert entry.fields == {text: text, "number": "1.5"}
    assert entry.offset == stream.end()
    assert RedisStream(os.environ["REDIS_URL"], clicks.parts[1]).since("", 10) == ([], False)


def test_messages_that_count_nothing_move_the_position(clicks: Clicks) -> None:
    decode = "tests.streams.decoding.nothing"
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=decode)}):
        (last,) = clicks.add("a")
        assert clicks.consumer().turn().messages == 1
    assert positions()[clicks.parts[0]] == last
    assert not Counter.objects.exists()


@pytest.mark.many_writers
def test_a_part_is_read_by_one_at_a_time(clicks: Clicks) -> None:
    clicks.add("a")
    other = clicks.consumer()
    other.turn()
    clicks.add("a")
    busy: list[list[str]] = []

    def step(name: str) -> None:
        if name == "land":
            busy.append(call(other.turn).result(30).busy)

    with beside() as call:
        assert clicks.consumer(step=step).turn().messages == 1
    assert busy == [[clicks.parts[0]]]
    assert_counts({"a": 2})


@pytest.mark.many_writers
def test_one_who_stands_still_loses_the_part(clicks: Clicks) -> None:
    clicks.add("a")
    other = clicks.consumer()

    def step(name: str) -> None:
        if name == "land":
            assert eventually(lambda: call(other.turn).result(30).messages == 1)

    with beside() as call, pytest.raises(CounterUnavailable):
        clicks.consumer(lease=0.2, step=step).turn()
    assert_counts({"a": 1, "all": 1})


@pytest.mark.parametrize("where", ["read", "land", "commit"])
def test_what_is_broken_off_is_counted_by_the_next_one(clicks: Clicks, where: str) -> None:
    clicks.add("a", "b")

    def step(name: str) -> None:
        if name == where:
            raise CounterUnavailable(using="default", reason="it is gone")

    with pytest.raises(CounterUnavailable):
        clicks.consumer(step=step).turn()
    assert_counts({"a": 0, "all": 0})
    assert positions()[clicks.parts[0]] == ""
    assert clicks.consumer().turn().messages == 2
    assert_counts({"a": 1, "all": 2})


def test_whoever_dies_after_the_commit_has_counted(clicks: Clicks) -> None:
    clicks.add("a")

    def step(name: str) -> None:
        if name == "committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clicks.consumer(step=step).turn()
    assert clicks.consumer().turn().messages == 0
    assert_counts({"a": 1})


@pytest.mark.parametrize("by", ["many", "0", str(2**70)])
def test_poison_is_put_aside_with_its_offset_and_payload(clicks: Clicks, by: str) -> None:
    clicks.add("a")
    (bad,) = clicks.add("a", by=by)
    clicks.add("a")
    done = clicks.consumer().turn()
    assert (done.messages, done.poison) == (3, 1)
    assert_counts({"a": 2, "all": 2})
    (incident,) = CounterIncident.objects.all()
    assert (incident.kind, incident.subject) == ("quarantined", "stream clicks")
    ((where, told),) = incident.detail["fields"].items()
    assert where == f"{clicks.parts[0]} {bad}"
    assert f"'by': '{by}'" in told


@pytest.mark.parametrize("key", ["no key", "bounded:a", "liked:a", ""])
def test_what_a_message_must_not_name(clicks: Clicks, key: str) -> None:
    clicks.add("a", key, "a")
    with override_counters(bounded={"CEILING": 5}, liked={"ONCE": True}):
        assert clicks.consumer().turn().poison == 1
    # None of the changes of such a message is counted.
    assert_counts({"a": 2, "all": 2})
    assert CounterIncident.objects.count() == 1


def test_a_bound_on_the_other_side_is_not_in_the_way(clicks: Clicks) -> None:
    clicks.add("stock:a", "stock:a")
    clicks.add("stock:a", by="-1")
    with override_counters(stock={"FLOOR": 0}):
        assert clicks.consumer().turn().poison == 1
    assert_counts({"stock:a": 2})


@pytest.mark.many_writers
def test_what_the_database_does_not_take_is_put_aside(clicks: Clicks) -> None:
    """Its error ends the transaction, and names no message."""
    clicks.add("a", "b", "c")
    bad = [*clicks.add("a", by="many"), *clicks.add("b", by="more")]
    clicks.add(*"abcdef")
    decode = "tests.streams.decoding.asking"
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=decode)}):
        consumer, whole = clicks.consumer(), Consumed()
        while (done := consumer.turn()).messages:
            whole.join(done)
    assert (whole.messages, whole.poison) == (11, 2)
    assert_counts({"a": 2, "b": 2, "c": 2, "d": 1, "f": 1})
    told = [one.detail["fields"] for one in CounterIncident.objects.order_by("pk")]
    assert [where for fields in told for where in fields] == [f"{clicks.parts[0]} {i}" for i in bad]
    assert "many" in str(told[0])


@pytest.mark.many_writers
@pytest.mark.parametrize("huge", [2**62, -(2**62) - 9])
def test_an_amount_that_does_not_fit_takes_no_other_along(clicks: Clicks, huge: int) -> None:
    Counter.objects.increment("a", huge)
    clicks.add(*"aab")
    (bad,) = clicks.add("a", by=str(huge))
    clicks.add(*"aac")
    consumer, whole = clicks.consumer(), Consumed()
    while (done := consumer.turn()).messages:
        whole.join(done)
    assert (whole.messages, whole.poison, whole.quarantined) == (7, 0, {"a": huge})
    assert_counts({"a": huge + 4, "b": 1, "c": 1, "all": 7})
    (incident,) = CounterIncident.objects.all()
    assert incident.detail["amounts"] == {"a": huge}
    (page,) = incident.detail["generations"]
    assert page.endswith(f" to {bad}"), page


@pytest.mark.many_writers
def test_other_errors_of_the_database_say_nothing_of_a_message(clicks: Clicks) -> None:
    clicks.add("a")
    decode = "tests.streams.decoding.asking_elsewhere"
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=decode)}):
        consumer = clicks.consumer()
        for _ in range(2):
            with pytest.raises(ProgrammingError):
                consumer.turn()
    assert not CounterIncident.objects.exists()
    assert positions()[clicks.parts[0]] == ""


@pytest.mark.many_writers
def test_a_slow_function_ends_the_page_before_the_lease_does(clicks: Clicks) -> None:
    """All together take longer than the server waits."""
    clicks.add(*"a" * 12)
    decode = "tests.streams.decoding.slowly"
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=decode)}):
        consumer, whole = clicks.consumer(lease=1.0), Consumed()
        for _ in range(20):
            # A machine that stands still may lose the lease, and gets it again.
            with suppress(CounterUnavailable):
                whole.join(consumer.turn())
    assert (whole.messages, whole.busy) == (12, [])
    assert whole.pages > 1
    assert_counts({"a": 12})


def test_however_much_poison_there_is_the_rest_is_counted(clicks: Clicks) -> None:
    """Else a few messages would stop the consumer for good."""
    clicks.add("a", *["no key"] * 40, "a")
    assert clicks.consumer().turn().poison == 40
    assert_counts({"a": 2, "all": 2})
    (incident,) = CounterIncident.objects.all()
    assert len(incident.detail["fields"]) == 40
    clicks.add(*["no key"] * 20, "a")
    assert clicks.consumer().turn().poison == 20
    assert_counts({"a": 3})


@pytest.mark.parametrize(
    ("error", "is_of_the_message"),
    [
        ("ImportError", False),
        ("ModuleNotFoundError", False),
        ("NameError", False),
        ("NotImplementedError", False),
        ("ConnectionRefusedError", False),
        ("TimeoutError", False),
        ("django.core.exceptions.ImproperlyConfigured", False),
        ("django.core.exceptions.AppRegistryNotReady", False),
        ("UnboundLocalError", True),
        ("gzip.BadGzipFile", True),
        ("OSError", True),
        ("zlib.error", True),
        ("RecursionError", True),
        ("AttributeError", True),
        ("TypeError", True),
        ("KeyError", True),
        ("ZeroDivisionError", True),
        ("Exception", True),
    ],
)
def test_what_the_process_cannot_do_stops_it_and_nothing_else(
    clicks: Clicks, error: str, is_of_the_message: bool
) -> None:
    clicks.add("a", "b")
    clicks.add("a", raises=error)
    with override_settings(
        COUNTERS_STREAMS={"clicks": clicks.declared(DECODE="tests.streams.decoding.raising")}
    ):
        if is_of_the_message:
            assert clicks.consumer().turn().poison == 1
            assert_counts({"a": 1, "b": 1})
            return
        for _ in range(2):
            with pytest.raises(DecodeFailed, match=r"^`DECODE` of clicks can't work: .*not here"):
                clicks.consumer().turn()
    assert_counts({"a": 0})
    assert positions()[clicks.parts[0]] == ""
    assert not CounterIncident.objects.exists()


def test_a_vanished_range_is_an_incident(clicks: Clicks) -> None:
    ids = clicks.add(*"abcdef")
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(PAGE=2)}):
        clicks.consumer().turn()
    clicks.client.xtrim(clicks.parts[0], maxlen=2, approximate=False)
    done = clicks.consumer().turn()
    assert (done.messages, done.incidents) == (2, [f"lost: {clicks.parts[0]} after {ids[1]}"])
    (incident,) = CounterIncident.objects.all()
    assert (incident.kind, incident.subject) == ("lost", "stream clicks")
    assert incident.detail == {"part": clicks.parts[0], "after": ids[1], "before": ids[4]}
    assert_counts({"a": 1, "b": 1, "c": 0, "d": 0, "e": 1, "f": 1})


def test_trimming_below_the_position_is_none(clicks: Clicks) -> None:
    clicks.add(*"abc")
    clicks.consumer().turn()
    position = positions()[clicks.parts[0]]
    clicks.client.xtrim(clicks.parts[0], minid=position, approximate=False)
    clicks.add("d")
    assert clicks.consumer().turn().messages == 1
    assert not CounterIncident.objects.exists()


@pytest.mark.parametrize("after", ["an empty one", "smaller ids"])
def test_a_position_beyond_the_end_is_said_once(clicks: Clicks, after: str) -> None:
    (last,) = clicks.add("a")
    consumer = clicks.consumer()
    consumer.turn()
    clicks.client.delete(clicks.parts[0])
    if after == "smaller ids":
        clicks.client.xadd(clicks.parts[0], {"key": "b"}, id="5-1")
    clicks.add("c", part=1)
    done = consumer.turn()
    assert done.messages == 1
    (told,) = done.incidents
    end = "5-1" if after == "smaller ids" else "(it is empty)"
    assert told.startswith(f"{clicks.parts[0]}: the position {last} is beyond the end {end}: ")
    assert consumer.turn().incidents == []
    # Whoever is started again says it, and writes nothing down.
    assert len(clicks.consumer().turn().incidents) == 1
    (incident,) = CounterIncident.objects.all()
    assert (incident.kind, incident.subject) == ("lost", "stream clicks")
    detail = {"part": clicks.parts[0], "position": last, "reason": "beyond the end"}
    assert incident.detail == detail
    assert_counts({"a": 1, "b": 0, "c": 1})


def test_a_position_that_is_deleted_while_a_consumer_runs(clicks: Clicks) -> None:
    """All of a stream that was made again is counted, and nobody has to be started anew."""
    clicks.add("a")
    consumer = clicks.consumer()
    assert consumer.turn().messages == 1
    clicks.client.delete(clicks.parts[0])
    clicks.client.xadd(clicks.parts[0], {"key": "b"}, id="1-1")
    CounterPosition.objects.filter(part=clicks.parts[0]).delete()
    turns = [consumer.turn() for _ in range(2)]
    assert [(done.messages, done.busy) for done in turns] == [(0, clicks.parts[:1]), (1, [])]
    assert_counts({"a": 1, "b": 1, "all": 2})
    assert not CounterIncident.objects.exists()


def test_periods_are_those_of_the_message(clicks: Clicks) -> None:
    moment = datetime(2026, 3, 4, 12, tzinfo=UTC)
    stamp = int(moment.timestamp() * 1000)
    for number in range(3):
        clicks.client.xadd(clicks.parts[0], {"key": "hits:a"}, id=f"{stamp}-{number + 1}")
    with override_counters(hits={"PER": ["day"], "KEEP": {"day": 36_500}}):
        assert clicks.consumer().turn().poison == 0
        days = series.of("hits:a").per("day")
        (point,) = days.between(moment, moment.replace(hour=13)).list()
    assert point.value == 3


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"BACKEND": "rabbit"}, "BACKEND is 'redis' or 'kafka', not 'rabbit'."),
        ({"STREAM": []}, "STREAM is key of a stream, or a list of them, not []."),
        ({"STREAMS": "a"}, "'STREAMS' isn't an option. Did you mean 'STREAM'?"),
        ({"LOCATION": "nowhere"}, "LOCATION: there is no cache 'nowhere' in CACHES."),
        ({"DECODE": "tests.streams.decoding.gone"}, "DECODE 'tests.streams.decoding.gone' can't"),
        ({"DECODE": "tests.streams.decoding.no_function"}, "no_function' isn't a function."),
        ({"PAGE": 0}, "PAGE is integer from 1 to 10000, not 0."),
    ],
)
def test_what_is_declared_wrongly(clicks: Clicks, more: dict[str, Any], problem: str) -> None:
    from django_counters.contrib.streams.checks import check_streams

    assert check_streams() == []
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(**more)}):
        (error,) = check_streams()
        assert error.id == "counters.E039"
        assert problem in error.msg
        assert error.msg.startswith("COUNTERS_STREAMS['clicks']: ")
        with pytest.raises(InvalidConfiguration):
            clicks.consumer()


@pytest.mark.parametrize("setting", [["clicks"], {"my clicks": {}}, {"clicks": "redis"}])
def test_what_is_no_dictionary_of_streams(setting: object) -> None:
    from django_counters.contrib.streams.checks import check_streams

    with override_settings(COUNTERS_STREAMS=setting):
        assert [error.id for error in check_streams()] == ["counters.E039"]


def test_a_position_of_somebody_else_fences(clicks: Clicks) -> None:
    """An operator puts the position elsewhere: what is counted next begins there."""
    ids = clicks.add("a", "b", "c")
    registry.positions("default").put("stream clicks", clicks.parts[0], Position(ids[1]))
    assert clicks.consumer().turn().messages == 1
    assert_counts({"c": 1, "all": 1})
    assert CounterPosition._base_manager.count() == 2
