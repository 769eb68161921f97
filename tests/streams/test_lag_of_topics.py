"""What the doctor and a scrape say of topics of Kafka: how many messages are not counted yet."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db.models import F
from django.test import override_settings

from django_counters.contrib.streams.lag import LAG_MESSAGES, behind
from django_counters.metrics import samples
from django_counters.metrics.samples import samples_of, scraping
from django_counters.models import CounterPosition
from django_counters.registry import registry
from django_counters.stores.sql.batches import SqlBatches
from tests.streams.conftest import broker as broker  # a fixture
from tests.streams.conftest import topic as topic  # a fixture
from tests.streams.test_lag import lags, of_streams

pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")

if TYPE_CHECKING:
    from tests.streams.topics import Topic

pytestmark = pytest.mark.django_db(transaction=True)


def waiting() -> dict[str, float]:
    *_, scrape = scraping("default")
    told = list(samples_of(scrape))
    # A scrape has no others.
    assert {one.metric for one in told} <= set(samples.state())
    found = (one for one in told if one.metric.name == LAG_MESSAGES.name)
    return {one.labels[1]: one.value for one in found}


def test_how_far_behind(topic: Topic) -> None:
    topic.add("a")
    topic.counted()
    topic.add("a", "a")
    topic.add("a", "a", "a", part=1)
    assert [(one.part, one.messages, one.is_late) for one in behind("default")] == [
        ("0", 2, False),
        ("1", 3, False),
    ]
    assert [one.action for one in of_streams()] == ["2 messages behind", "3 messages behind"]
    assert (waiting(), lags()) == ({"clicks": 5}, {})
    topic.counted()
    assert of_streams() == []
    assert waiting() == {"clicks": 0}


def test_nobody_has_counted_for_long(topic: Topic) -> None:
    topic.add("a")
    topic.add("a", part=1)
    topic.counted()
    rows = CounterPosition._base_manager.all()
    rows.update(moved_at=F("moved_at") - timedelta(minutes=11))
    # What waits in the first part came just now; that of the second one long ago.
    topic.add("a")
    old = int(registry.kept(SqlBatches, "default").now().timestamp() - 3600) * 1000
    topic.write(b"a", part=1, timestamp=old)
    assert [part.is_late for part in behind("default")] == [False, True]
    late = [finding for finding in of_streams() if finding.needed]
    assert [finding.command for finding in late] == ["manage.py counters consume clicks"]


def test_another_topic_has_taken_its_place(topic: Topic) -> None:
    topic.add(*"abc")
    topic.counted()
    topic.delete()
    topic.make()
    topic.add(*"abcdef")
    (finding,) = (one for one in of_streams() if one.needed)
    assert finding.subject == "stream clicks 0"
    assert "another stream" in finding.action
    assert waiting() == {}


def test_brokers_that_are_away(topic: Topic) -> None:
    away = topic.declared(LOCATION="127.0.0.1:1")
    began = time.monotonic()
    with override_settings(COUNTERS_STREAMS={"clicks": away}):
        (finding,) = of_streams()
        assert finding.needed
        assert topic.name in finding.action
        assert waiting() == {}
    assert time.monotonic() - began < 20
