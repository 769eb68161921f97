"""Each message of a topic is counted once, whatever becomes of the group and of the topic."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_counters.contrib import series
from django_counters.errors import (
    CounterUnavailable,
    InvalidConfiguration,
    OutcomeUnknown,
)
from django_counters.models import Counter, CounterIncident
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position
from django_counters.testing import assert_counts, override_counters

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")
from tests.redis.counting import eventually
from tests.stores.test_failures import beside
from tests.streams.topics import SESSION, all_of, until

if TYPE_CHECKING:
    from django_counters.contrib.streams.consuming import Consumed
    from tests.streams.topics import Topic

pytestmark = pytest.mark.django_db(transaction=True)
SOURCE = "stream clicks"


def positions() -> dict[str, str]:
    return {part: at for part, (at, _) in registry.positions("default").of(SOURCE).items()}


def test_all_partitions_are_counted_once(topic: Topic) -> None:
    topic.add("a", "b", "a")
    topic.add("a", part=1, by="5")
    done = topic.counted()
    assert (done.messages, done.poison, done.busy, done.incidents) == (4, 0, [], [])
    assert_counts({"a": 7, "b": 1, "all": 4})
    # The offset that comes next.
    assert positions() == {"0": "3", "1": "1"}
    assert topic.counted().messages == 0
    topic.add("b")
    assert topic.counted().messages == 1
    assert_counts({"a": 7, "b": 2, "all": 5})
    assert not CounterIncident.objects.exists()


def test_a_page_has_so_many_messages(topic: Topic) -> None:
    topic.add(*"abcdefg")
    with override_settings(COUNTERS_STREAMS={"clicks": topic.declared(PAGE=3)}):
        done = topic.counted()
    assert (done.messages, done.pages) == (7, 3)
    assert_counts({"all": 7})


def test_a_message_is_as_it_was_written(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []

    def decode(message: Any) -> list[tuple[str, int]]:
        values = message.key, message.value, message.headers, message.part, message.offset
        seen.append((*values, message.at))
        return []

    monkeypatch.setattr("tests.streams.decoding.topic_clicks", decode)
    stamp = int(datetime(2026, 3, 4, 12, tzinfo=UTC).timestamp() * 1000)
    headers = [("h", b"\xff"), ("h", None)]
    topic.write(b"\x00\xff", part=1, key=b"k", headers=headers, timestamp=stamp)
    topic.write(None, part=1, timestamp=stamp)
    # Nothing is counted, and the position moves.
    assert topic.counted().messages == 2
    at = datetime(2026, 3, 4, 12, tzinfo=UTC)
    assert seen == [(b"k", b"\x00\xff", headers, 1, 0, at), (None, None, [], 1, 1, at)]
    assert positions() == {"1": "2"}
    assert not Counter.objects.exists()


@pytest.mark.many_writers
def test_what_the_database_does_not_take_is_put_aside(topic: Topic) -> None:
    for part in range(2):
        topic.add("a", "b", part=part)
        topic.add("a", by="many", part=part)
        topic.add("c", part=part)
    decode = "tests.streams.decoding.asking"
    with override_settings(COUNTERS_STREAMS={"clicks": topic.declared(DECODE=decode)}):
        done = topic.counted()
    assert (done.messages, done.poison) == (8, 2)
    assert_counts({"a": 2, "b": 2, "c": 2})
    told = [where for one in CounterIncident.objects.all() for where in one.detail["fields"]]
    assert sorted(told) == ["0 2", "1 2"]


def test_an_amount_that_does_not_fit_takes_no_other_along(topic: Topic) -> None:
    Counter.objects.increment("a", 2**62)
    for part in range(2):
        topic.add("a", "b", part=part)
    topic.add("a", by=str(2**62), part=0)
    topic.add("a", "c", part=0)
    done = topic.counted()
    assert (done.messages, done.poison, done.quarantined) == (7, 0, {"a": 2**62})
    assert_counts({"a": 2**62 + 3, "b": 2, "c": 1, "all": 7})
    assert CounterIncident.objects.get().detail["amounts"] == {"a": 2**62}


def test_positions_are_believed_and_not_the_group(topic: Topic) -> None:
    """The offsets of the group are for displays: an operator may put the position back."""
    topic.add("a", "b", "c")
    assert topic.counted().messages == 3
    store = registry.positions("default")
    store.put(SOURCE, "0", store.of(SOURCE)["0"]._replace(position="1"))
    assert topic.counted().messages == 2
    assert_counts({"a": 1, "b": 2, "c": 2, "all": 5})


def test_settings_of_the_site_go_before_ours(topic: Topic, monkeypatch: Any) -> None:
    from confluent_kafka import Consumer

    given: list[dict[str, Any]] = []

    def made(settings: dict[str, Any], **more: Any) -> Consumer:
        given.append(settings)
        return Consumer(settings, **more)

    monkeypatch.setattr("django_counters.contrib.streams.kafka_member.Consumer", made)
    topic.counted()
    assert given[0]["fetch.wait.max.ms"] == SESSION["fetch.wait.max.ms"]
    assert given[0]["fetch.queue.backoff.ms"] == 10


def test_the_group_is_told_how_far_it_is(topic: Topic) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic.add("a", "b")
    topic.counted()
    settings = {"bootstrap.servers": topic.broker.address, "group.id": topic.name}
    looking = Consumer(settings)
    (told,) = looking.committed([TopicPartition(topic.name, 0)], timeout=10)
    looking.close()
    assert told.offset == 2


def test_who_comes_too_late_drops_its_page_and_goes_on(topic: Topic) -> None:
    """Between poll and land others count the same page: a zombie, without waiting for one."""
    topic.add("a", "b")
    ahead: list[int] = []

    def step(name: str) -> None:
        if name == "land" and not ahead:
            ahead.append(other_group(topic))

    with topic.consumer(step=step) as zombie:
        late = until(zombie, lambda done: done.busy or done.messages)
        assert (late.messages, late.busy) == (0, ["0", "1"])
        topic.add("c")
        assert all_of(zombie).messages == 1
    assert ahead == [2]
    assert_counts({"a": 1, "b": 1, "c": 1, "all": 3})
    assert positions() == {"0": "3"}


def other_group(topic: Topic) -> int:
    """Count all, in a group that shares nothing with the others, as after a lost session."""
    other = {"clicks": topic.declared(GROUP="other")}
    with override_settings(COUNTERS_STREAMS=other), beside() as call:
        done: Consumed = call(topic.counted).result(30)
        return done.messages


@pytest.mark.many_writers
def test_one_who_stands_still_within_its_transaction_holds_nobody_up(topic: Topic) -> None:
    topic.add("a")

    def step(name: str) -> None:
        if name == "commit":
            assert eventually(lambda: other_group(topic) == 1)

    with pytest.raises(OutcomeUnknown):
        topic.counted(lease=0.2, step=step)
    assert_counts({"a": 1, "all": 1})


def test_what_comes_again_is_dropped(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same messages, as they were read before, in front of the next ones."""
    from django_counters.contrib.streams.kafka_member import Member

    read, kept = Member.read, []

    def again(self: Member, most: int, seconds: float) -> Any:
        found = read(self, most, seconds)
        kept.extend(found.messages)
        found.messages[:] = kept
        return found

    monkeypatch.setattr(Member, "read", again)
    with topic.consumer() as consumer:
        topic.add("a", "b")
        assert until(consumer, lambda done: done.messages).messages == 2
        topic.add("c")
        assert until(consumer, lambda done: done.messages).messages == 1
    assert_counts({"a": 1, "b": 1, "c": 1, "all": 3})


@pytest.mark.parametrize("where", ["poll", "land", "commit"])
def test_what_is_broken_off_is_counted_afterwards(topic: Topic, where: str) -> None:
    topic.add("a", "b")
    broken: list[str] = []

    def step(name: str) -> None:
        if name == where and not broken:
            broken.append(name)
            raise CounterUnavailable(using="default", reason="it is gone")

    with topic.consumer(step=step) as consumer:
        with pytest.raises(CounterUnavailable):
            until(consumer, lambda done: done.messages)
        assert_counts({"a": 0, "all": 0})
        assert positions() == {}
        # The same consumer goes on, as in a loop.
        assert all_of(consumer).messages == 2
    assert_counts({"a": 1, "all": 2})


def test_whoever_dies_after_the_commit_has_counted(topic: Topic) -> None:
    topic.add("a")

    def step(name: str) -> None:
        if name == "committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        topic.counted(step=step)
    assert topic.counted().messages == 0
    assert_counts({"a": 1})


def test_the_database_is_away_when_partitions_are_given(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error leaves a callback: it would end the consumer."""
    topic.add("a")
    store = registry.positions("default")
    failed: list[str] = []
    of = type(store).of

    def once(self: Any, source: str) -> Any:
        if consumer._member.parts and not failed:
            failed.append(source)
            raise CounterUnavailable(using="default", reason="it is gone")
        return of(self, source)

    with topic.consumer() as consumer:
        monkeypatch.setattr(type(store), "of", once)
        with pytest.raises(CounterUnavailable):
            until(consumer, lambda done: done.messages)
        assert all_of(consumer).messages == 1


def test_two_share_the_partitions(topic: Topic) -> None:
    topic.add("a")
    topic.add("a", part=1)
    # On a busy machine nobody is taken for dead while the other one has his turn.
    patient = topic.declared(OPTIONS={**SESSION, "session.timeout.ms": 5_000})
    with (
        override_settings(COUNTERS_STREAMS={"clicks": patient}),
        topic.consumer() as first,
        topic.consumer() as second,
    ):
        deadline = time.monotonic() + 30
        while [first._member.parts, second._member.parts] not in SHARED:
            first.turn()
            second.turn()
            assert time.monotonic() < deadline
        all_of(first)
        all_of(second)
        topic.add("b")
        topic.add("b", part=1)
        assert until(first, lambda done: done.messages).messages == 1
        assert until(second, lambda done: done.messages).messages == 1
    assert_counts({"a": 2, "b": 2, "all": 4})


SHARED = [[frozenset({0}), frozenset({1})], [frozenset({1}), frozenset({0})]]


def test_poison_is_put_aside_with_its_offset_and_payload(topic: Topic) -> None:
    topic.add("a")
    topic.write(b"\xffno json", part=0, key=b"k")
    topic.add("a")
    done = topic.counted()
    assert (done.messages, done.poison) == (3, 1)
    assert_counts({"a": 2, "all": 2})
    (incident,) = CounterIncident.objects.all()
    assert (incident.kind, incident.subject) == ("quarantined", SOURCE)
    ((where, told),) = incident.detail["fields"].items()
    assert where == "0 1"
    assert told.startswith(r"{'key': b'k', 'value': b'\xffno json', 'headers': []}")


def test_however_much_poison_there_is_the_rest_is_counted(topic: Topic) -> None:
    topic.add("a", *["no key"] * 40, "a")
    assert topic.counted().poison == 40
    assert_counts({"a": 2})


def test_periods_are_those_of_the_message(topic: Topic) -> None:
    moment = datetime(2026, 3, 4, 12, tzinfo=UTC)
    stamp = int(moment.timestamp() * 1000)
    topic.write(*[b'{"key": "hits:a"}'] * 3, timestamp=stamp)
    with override_counters(hits={"PER": ["day"], "KEEP": {"day": 36_500}}):
        assert topic.counted().poison == 0
        days = series.of("hits:a").per("day")
        (point,) = days.between(moment, moment.replace(hour=13)).list()
    assert point.value == 3


def test_a_vanished_range_is_an_incident_and_the_rest_is_counted(topic: Topic) -> None:
    topic.add("a", "b")
    topic.counted()
    topic.add(*"cdef")
    topic.forget(4)
    done = topic.counted()
    assert (done.messages, done.incidents) == (2, ["lost: 0 after 1"])
    (incident,) = CounterIncident.objects.all()
    assert (incident.kind, incident.subject) == ("lost", SOURCE)
    assert incident.detail == {"part": "0", "after": "1", "before": "4"}
    assert_counts({"a": 1, "b": 1, "c": 0, "d": 0, "e": 1, "f": 1})
    assert positions() == {"0": "6"}


def test_what_is_old_and_counted_may_go(topic: Topic) -> None:
    topic.add(*"abc")
    topic.counted()
    topic.forget(3)
    topic.add("d")
    assert topic.counted().messages == 1
    # Nobody has counted this one: all that is there is what there is to count.
    topic.add("a", "b", part=1)
    topic.forget(1, part=1)
    assert topic.counted().messages == 1
    assert not CounterIncident.objects.exists()


@pytest.mark.parametrize("new", ["shorter", "longer"])
def test_a_topic_that_was_made_again_is_counted_from_its_beginning(topic: Topic, new: str) -> None:
    topic.add(*"abc")
    topic.counted()
    (old,) = {at.timeline for at in registry.positions("default").of(SOURCE).values()}
    topic.delete()
    topic.make()
    topic.add(*["d"] * (1 if new == "shorter" else 5))
    done = topic.counted()
    (told,) = done.incidents
    assert told.startswith("0: the topic was made again. Messages after 3 in the old topic may be ")
    (incident,) = CounterIncident.objects.all()
    detail = incident.detail
    assert (incident.kind, detail["position"], detail["topic"]) == ("lost", "3", old)
    assert done.messages == (1 if new == "shorter" else 5)
    assert_counts({"all": 3 + done.messages})
    again = topic.counted()
    assert (again.messages, again.incidents) == (0, [])


@pytest.mark.many_writers
def test_whoever_is_late_does_not_begin_a_new_topic_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the positions of the old topic; others have begun the new one meanwhile."""
    topic.add(*"abc")
    topic.counted()
    topic.delete()
    topic.make()
    topic.add("d", "e")
    store = type(registry.positions("default"))
    of = store.of
    others: list[int] = []

    def late(self: Any, source: str) -> Any:
        found = of(self, source)
        if consumer._member.parts and not others:
            others.append(0)
            others.append(other_group(topic))
        return found

    with topic.consumer() as consumer:
        monkeypatch.setattr(store, "of", late)
        assert all_of(consumer).messages == 0
    assert others == [0, 2]
    assert_counts({"d": 1, "e": 1, "all": 5})
    assert CounterIncident.objects.count() == 1


def test_a_consumer_that_runs_notices_a_topic_that_was_made_again(topic: Topic) -> None:
    topic.add(*"abc")
    with topic.consumer() as consumer:
        all_of(consumer)
        topic.delete()
        topic.make()
        topic.add("d")
        told = until(consumer, lambda done: done.incidents)
        assert "made again" in told.incidents[0]
        if not told.messages:
            assert all_of(consumer).messages == 1
    assert_counts({"d": 1, "all": 4})


def test_a_position_beyond_the_end_is_said_once(topic: Topic) -> None:
    topic.add("a")
    topic.counted()
    store = registry.positions("default")
    store.put(SOURCE, "0", store.of(SOURCE)["0"]._replace(position="7"))
    topic.add("b")
    with topic.consumer() as consumer:
        (told,) = all_of(consumer).incidents
        assert told.startswith("0: the position 7 is beyond the end 2: another stream has taken")
        # Others go on meanwhile, and it is not said again.
        topic.add("c", part=1)
        again = all_of(consumer)
        assert (again.messages, again.incidents) == (1, [])
    # Whoever is started again says it, and writes nothing down.
    assert len(topic.counted().incidents) == 1
    (incident,) = CounterIncident.objects.all()
    assert incident.detail == {"part": "0", "position": "7", "reason": "beyond the end"}
    assert_counts({"a": 1, "b": 0, "c": 1})
    # A person decides.
    store.put(SOURCE, "0", Position())
    assert topic.counted().messages == 2


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            {"LOCATION": ""},
            "LOCATION is 'host:port', several with commas between, not a value of type str.",
        ),
        ({"TOPIC": None}, "TOPIC is name of a topic, not None."),
        ({"STREAM": "a"}, "'STREAM' isn't an option."),
        ({"GROUP": 5}, "GROUP is name of a group, or None, not 5."),
        (
            {"OPTIONS": []},
            "OPTIONS is dictionary of settings of librdkafka, or None, not a value of type list.",
        ),
        ({"OPTIONS": {"group.id": "a"}}, "OPTIONS: set GROUP instead of 'group.id'."),
        (
            {"OPTIONS": {"auto.offset.reset": "latest"}},
            "'auto.offset.reset' can't be set: exact",
        ),
        ({"OPTIONS": {"error_cb": print}}, "OPTIONS: 'error_cb' isn't a setting."),
    ],
)
def test_what_is_declared_wrongly(topic: Topic, more: dict[str, Any], problem: str) -> None:
    from django_counters.contrib.streams.checks import check_streams

    assert check_streams() == []
    with override_settings(COUNTERS_STREAMS={"clicks": topic.declared(**more)}):
        (error,) = check_streams()
        assert error.id == "counters.E039"
        assert problem in error.msg
        with pytest.raises(InvalidConfiguration), topic.consumer():
            pass


def test_a_setting_that_librdkafka_does_not_know(topic: Topic) -> None:
    options = {**SESSION, "no.such.setting": 1}
    with (
        override_settings(COUNTERS_STREAMS={"clicks": topic.declared(OPTIONS=options)}),
        pytest.raises(InvalidConfiguration, match=r"no\.such\.setting"),
        topic.consumer(),
    ):
        pass


def test_without_the_package_the_check_says_how_to_get_it(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_counters.contrib.streams.checks import check_streams

    monkeypatch.setattr("django_counters.contrib.streams.kafka.find_spec", lambda name: None)
    (error,) = check_streams()
    assert "pip install django-distributed-counters[kafka]" in error.msg
