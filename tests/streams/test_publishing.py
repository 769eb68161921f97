"""Buffers that publish to a stream: what is published is counted once, when a consumer comes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import modify_settings, override_settings

from django_counters import clock
from django_counters.contrib import buffers
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.streams.publishing import Publisher
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from tests.buffers.buffering import LATER, landed
from tests.redis.proxy import Proxy, proxied
from tests.streams.conftest import Clicks
from tests.streams.published import again, numbers, publish, published, reached

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("publishing")]


@pytest.fixture
def network(clicks: Clicks) -> Iterator[Proxy]:
    """What is between the buffer and the stream."""
    with (
        proxied() as proxy,
        override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(LOCATION=proxy.url)}),
    ):
        yield proxy


@pytest.mark.parametrize("inner", ["exact", "sharded"], indirect=True)
def test_sums_are_counted_by_the_consumer(clicks: Clicks, inner: str) -> None:
    Counter.objects.increment("hits:home", 3)
    Counter.objects.increment("hits:home", 4)
    Counter.objects.increment("hits:about")
    assert (landed(), Counter.objects.value("hits:home")) == (0, 7)
    assert buffers.flush() == 2
    # In the stream, and in nobody's value.
    assert Counter.objects.value("hits:home") == 0
    Counter.objects.increment("hits:home")
    assert Counter.objects.value("hits:home") == 1
    done = clicks.consumer().turn()
    assert (done.messages, done.counters, done.repeats) == (1, 2, 0)
    assert (landed("hits:about"), landed(), Counter.objects.value("hits:home")) == (1, 7, 8)
    assert not CounterIncident.objects.exists()


def test_totals_are_counted_by_a_consumer_without_the_app_of_their_periods(clicks: Clicks) -> None:
    publish(7, "seen:a")
    absent = [f"django_counters.contrib.{name}" for name in ("series", "top", "uniques")]
    to = {"BUFFER": {**LATER, "to": "clicks"}}
    with (
        modify_settings(INSTALLED_APPS={"remove": absent}),
        override_counters(seen=to, many=to),
    ):
        done = clicks.consumer().turn()
        assert (done.messages, done.poison, done.quarantined) == (1, 0, {})
        assert landed("seen:a") == 7
        (page,) = published(clicks)
        again(clicks, page)
        assert clicks.consumer().turn().repeats == 1
    assert not CounterCell.objects.exists()
    (incident,) = CounterIncident.objects.all()
    field = next(field for field in page["sums"] if field != "seen:a")
    assert incident.detail["reason"] == "strange"
    assert incident.detail["fields"] == {f"{page['incarnation']} 1 {field}": "7"}


def test_messages_of_others_are_decoded(clicks: Clicks) -> None:
    clicks.add("a")
    publish(5)
    clicks.add("a")
    consumer = clicks.consumer()
    assert (consumer.turn().messages, consumer.turn().messages) == (3, 0)
    assert Counter.objects.values_of(["a", "all", "hits:home"]) == {
        "a": 2,
        "all": 2,
        "hits:home": 5,
    }


def test_a_stream_of_buffers_needs_no_function(clicks: Clicks) -> None:
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=None)}):
        publish(5)
        clicks.add("a")
        assert clicks.consumer().turn().poison == 1
    assert landed() == 5
    (incident,) = CounterIncident.objects.all()
    assert "the stream has no DECODE" in str(incident.detail)


@pytest.mark.parametrize("fault", ["close", "half", "reset"])
def test_a_lost_answer_is_no_second_count(clicks: Clicks, network: Proxy, fault: Any) -> None:
    for turn in (1, 2):
        network.lose(fault, marker=b"XADD")
        with pytest.raises(OutcomeUnknown):
            publish(7)
        # Nobody knows whether it is there, so it is still ours.
        assert Counter.objects.value("hits:home") == 7 * (2 * turn - 1)
        Counter.objects.increment("hits:home", 7)
        buffers.flush()
        done = clicks.consumer().turn()
        assert landed() == Counter.objects.value("hits:home") == 14 * turn
        assert (done.messages, done.repeats) == (3, 1)
    assert numbers(clicks) == [1, 1, 2, 3, 3, 4]


def test_a_lost_answer_of_what_is_counted_by_now(clicks: Clicks, network: Proxy) -> None:
    """The first message of a history: its position is made when it is counted."""
    network.lose("close", marker=b"XADD")
    with pytest.raises(OutcomeUnknown):
        publish(7)
    assert clicks.consumer().turn().messages == 1
    # It is in the total, so it is not added once more.
    assert landed() == Counter.objects.value("hits:home") == 7
    buffers.flush()
    done = clicks.consumer().turn()
    assert landed() == Counter.objects.value("hits:home") == 7
    assert (done.messages, done.repeats) == (1, 1)


def test_what_is_refused_leaves_its_number_free(clicks: Clicks) -> None:
    publish()
    (part,) = [part for part in clicks.parts if clicks.client.exists(part)]
    clicks.client.rename(part, f"{part}-kept")
    clicks.client.set(part, "no stream")
    for _ in range(3):
        with pytest.raises(CounterUnavailable):
            publish()
    assert Counter.objects.value("hits:home") == 3
    clicks.client.rename(f"{part}-kept", part)
    publish()
    assert numbers(clicks) == [1, 2, 3]
    assert clicks.consumer().turn().messages == 3
    assert landed() == 5
    assert not CounterIncident.objects.exists()


def test_what_was_refused_for_long_is_not_old(clicks: Clicks, monkeypatch: Any) -> None:
    now = clock.utc()
    monkeypatch.setattr(clock, "utc", lambda: now - timedelta(days=40))
    for part in clicks.parts:
        clicks.client.set(part, "no stream")
    with pytest.raises(CounterUnavailable):
        publish()
    clicks.client.delete(*clicks.parts)
    monkeypatch.setattr(clock, "utc", lambda: now)
    buffers.flush()
    assert clicks.consumer().turn().messages == 1
    assert landed() == 1


def test_pages_of_a_buffer_come_in_their_order(clicks: Clicks) -> None:
    many = {f"hits:{number}": number + 1 for number in range(1_700)}
    for _ in range(2):
        Counter.objects.increment_many(many)
        buffers.flush()
    assert numbers(clicks) == list(range(1, 9))
    assert sorted(clicks.client.exists(part) for part in clicks.parts) == [0, 1]
    assert clicks.consumer().turn().messages == 8
    assert Counter.objects.values_of(many) == {key: 2 * by for key, by in many.items()}
    assert reached() == ["8"]
    assert not CounterIncident.objects.exists()


def test_a_page_that_is_read_in_pieces(clicks: Clicks) -> None:
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(PAGE=2)}):
        for _ in range(5):
            publish()
        consumer = clicks.consumer()
        assert [consumer.turn().messages for _ in range(4)] == [2, 2, 1, 0]
    assert landed() == 5


def test_periods_and_tags_are_those_of_the_increment(clicks: Clicks) -> None:
    for country in ("de", "de", "fr"):
        Counter.objects.increment("seen:a", tags={"country": country})
    Counter.objects.increment("seen:a", 5, at=clock.utc() - timedelta(days=3))
    buffers.flush()
    assert not CounterCell.objects.exists()
    assert clicks.consumer().turn().messages == 1
    assert (landed("seen:a"), Counter.objects.value("seen:a")) == (8, 8)
    cells = CounterCell.objects.filter(key="seen:a")
    assert sorted((cell.tags, cell.value) for cell in cells) == [("", 5), ("de", 2), ("fr", 1)]
    assert len({cell.start for cell in cells}) == 2


def test_what_comes_to_nothing_is_no_message(clicks: Clicks) -> None:
    Counter.objects.increment("hits:home")
    Counter.objects.decrement("hits:home")
    buffers.flush()
    publish()
    assert numbers(clicks) == [1]


def test_it_is_published_after_the_commit(clicks: Clicks) -> None:
    with transaction.atomic():
        Counter.objects.increment("hits:home", 2)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Counter.objects.increment("hits:home", 100)
            raise ZeroDivisionError
        present.flush()
        assert published(clicks) == []
    buffers.flush()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Counter.objects.increment("hits:home", 100)
        raise ZeroDivisionError
    buffers.flush()
    clicks.consumer().turn()
    assert landed() == 2


def test_a_full_one_that_cannot_be_published_counts_at_once(clicks: Clicks) -> None:
    for part in clicks.parts:
        clicks.client.set(part, "no stream")
    Counter.objects.increment("full:a")
    Counter.objects.increment("full:b")
    assert Counter.objects.increment("full:c") == landed("full:c") == 1
    clicks.client.delete(*clicks.parts)
    buffers.flush()
    clicks.consumer().turn()
    assert [landed(f"full:{name}") for name in "abc"] == [1, 1, 1]


def test_a_new_process_begins_a_new_history(clicks: Clicks) -> None:
    publish()
    Counter.objects.increment("hits:home", 100)
    present.begin_in_child()
    publish(10)
    publish(10)
    assert sorted(numbers(clicks)) == [1, 1, 2]
    assert len({one["incarnation"] for one in published(clicks)}) == 2
    clicks.consumer().turn()
    assert landed() == 21
    assert not CounterIncident.objects.exists()


def test_a_day_without_a_message_begins_a_new_history(clicks: Clicks, monkeypatch: Any) -> None:
    now = clock.utc()
    for hours in (60, 37, 12, 11):
        monkeypatch.setattr(clock, "utc", lambda ago=timedelta(hours=hours): now - ago)
        publish()
    assert sorted(numbers(clicks)) == [1, 1, 2, 2]
    monkeypatch.undo()
    clicks.consumer().turn()
    assert (landed(), reached()) == (4, ["2", "2"])


@pytest.mark.parametrize(
    ("buffer", "problem"),
    [
        (
            {"to": "klicks"},
            "not 'klicks'; there are: 'clicks', 'diary'. Did you mean 'clicks'?",
        ),
        ({"to": 5}, "'to' is the name of an outlet, not 5; there are: "),
        ({"to": "clicks", "directory": "/tmp"}, "'to' cannot stand beside 'directory'"),
    ],
)
def test_what_is_declared_wrongly(clicks: Clicks, buffer: dict[str, object], problem: str) -> None:
    from django_counters.checks import check_setting

    with override_settings(COUNTERS={"hits": {"BUFFER": buffer}}):
        found = check_setting()
    assert {one.id for one in found} == {"counters.E040"}
    assert any(problem in one.msg for one in found)


def test_a_stream_without_a_function_and_without_a_buffer(clicks: Clicks) -> None:
    from django_counters.contrib.streams.checks import check_streams

    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=None)}):
        with override_settings(COUNTERS={"hits": {"BUFFER": {"to": "clicks"}}}):
            assert check_streams() == []
        with override_settings(COUNTERS={"hits": {"BUFFER": {}}}):
            (error,) = check_streams()
    assert (error.id, "DECODE is missing" in error.msg) == ("counters.E039", True)


def test_one_counter_with_many_tags_is_several_messages(clicks: Clicks, monkeypatch: Any) -> None:
    """So no message is as large as a buffer."""
    monkeypatch.setattr(Publisher, "size", 5)
    for number in range(40):
        Counter.objects.increment("many:a", tags={"number": str(number)})
    buffers.flush()
    found = published(clicks)
    assert len(found) > 4
    assert sum(one["sums"]["many:a"] for one in found) == 40
    assert max(len(one["sums"]) for one in found) < 30
    clicks.consumer().turn()
    assert landed("many:a") == 40
    assert CounterCell.objects.filter(key="many:a", value=1).count() == 40


def test_a_consumer_takes_a_megabyte_at_once(clicks: Clicks) -> None:
    clicks.add(*"abcdef", weight="x" * 400_000)
    consumer = clicks.consumer()
    assert [consumer.turn().messages for _ in range(4)] == [3, 2, 1, 0]
    assert landed("all") == 6
