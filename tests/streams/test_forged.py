"""Messages that look like those of a buffer, and were written by others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.contrib.streams import DecodeFailed, UnknownSignature
from django_counters.contrib.streams.redis import PUBLISHED
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.buffers.buffering import LATER, landed
from tests.streams.conftest import Clicks
from tests.streams.published import again, publish, published

pytestmark = pytest.mark.django_db(transaction=True)


def forged(**sums: int) -> dict[str, Any]:
    """All that a page of a buffer says, made by hand."""
    ids = {"page": mint(clock.utc()).hex, "incarnation": mint(clock.utc()).hex}
    named = {name.replace("_", ":"): by for name, by in sums.items()}
    return {**ids, "using": "default", "number": 1, "sums": named}


def refused() -> str:
    """Why the only message was put aside."""
    (incident,) = CounterIncident.objects.filter(kind="quarantined")
    (why,) = incident.detail["fields"].values()
    return str(why)


def test_a_stream_without_publishers_has_no_publications(clicks: Clicks) -> None:
    """Else whoever writes to it could count below a floor, past `DECODE`."""
    with override_counters(stock={"FLOOR": 0}):
        clicks.client.xadd(clicks.parts[0], {PUBLISHED: json.dumps(forged(stock_a=-500))})
        again(clicks, forged(stock_a=-500))
        assert clicks.consumer().turn().poison == 2
        assert Counter.objects.value("stock:a") == 0


def test_decode_is_given_what_is_no_publication_there(clicks: Clicks) -> None:
    clicks.client.xadd(clicks.parts[0], {PUBLISHED: "theirs", "key": "a"})
    assert clicks.consumer().turn().poison == 0
    assert Counter.objects.value("a") == 1


def test_without_publishers_and_decode_nothing_is_quarantined(clicks: Clicks) -> None:
    """The settings of the consumer are not those of the publishers."""
    again(clicks, forged(hits_home=1))
    with (
        override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(DECODE=None)}),
        pytest.raises(DecodeFailed, match="it is missing, and no BUFFER publishes there"),
    ):
        clicks.consumer().turn()
    assert not CounterIncident.objects.exists()


@pytest.fixture
def quarantining(clicks: Clicks) -> Iterator[None]:
    with override_settings(COUNTERS_STREAMS={"clicks": clicks.declared(UNSIGNED="quarantine")}):
        yield


@pytest.mark.usefixtures("publishing")
class TestAStreamWithPublishers:
    @pytest.mark.usefixtures("quarantining")
    def test_without_a_signature(self, clicks: Clicks) -> None:
        clicks.client.xadd(clicks.parts[0], {PUBLISHED: json.dumps(forged(hits_home=500))})
        assert clicks.consumer().turn().poison == 1
        assert landed() == 0
        assert "BadSignature" in refused()

    @pytest.mark.usefixtures("quarantining")
    def test_changed_after_it_was_signed(self, clicks: Clicks) -> None:
        publish(7)
        ((_, fields),) = clicks.client.xrange(clicks.parts[0]) + clicks.client.xrange(
            clicks.parts[1]
        )
        clicks.client.delete(*clicks.parts)
        text = fields[PUBLISHED].replace('"hits:home":7', '"hits:home":8')
        clicks.client.xadd(clicks.parts[0], {PUBLISHED: text})
        assert clicks.consumer().turn().poison == 1
        assert landed() == 0

    @pytest.mark.usefixtures("quarantining")
    def test_signed_for_another_stream(self, clicks: Clicks) -> None:
        again(clicks, forged(hits_home=500), stream="others")
        assert clicks.consumer().turn().poison == 1
        assert landed() == 0

    @pytest.mark.parametrize("namespace", ["stock", "elsewhere", "plain"])
    def test_a_namespace_that_does_not_publish_there(self, clicks: Clicks, namespace: str) -> None:
        to = {**LATER, "to": "others"}
        declared = {"clicks": clicks.declared(), "others": clicks.declared()}
        with (
            override_settings(COUNTERS_STREAMS=declared),
            override_counters(
                hits={"BUFFER": {**LATER, "to": "clicks"}},
                stock={"FLOOR": 0},
                elsewhere={"BUFFER": to},
            ),
        ):
            again(clicks, forged(**{"hits_home": 1, f"{namespace}_a": -500}))
            done = clicks.consumer().turn()
            assert done.quarantined == {"hits:home": 1, f"{namespace}:a": -500}
            assert Counter.objects.value(f"{namespace}:a") == 0
            assert landed() == 0
        (incident,) = CounterIncident.objects.all()
        assert incident.detail["reason"] == "not published here"

    def test_a_key_that_was_replaced(self, clicks: Clicks) -> None:
        with override_settings(SECRET_KEY="the former one"):
            publish(7)
        with override_settings(SECRET_KEY="present", SECRET_KEY_FALLBACKS=["the former one"]):
            assert clicks.consumer().turn().poison == 0
        assert landed() == 7
        assert len(published(clicks)) == 1

    def test_a_consumer_without_the_key_stops_and_loses_nothing(self, clicks: Clicks) -> None:
        clicks.add("a")
        with override_settings(SECRET_KEY="the next one"):
            publish(7)
            publish(8)
        for _ in range(2):
            with pytest.raises(UnknownSignature, match=r"SECRET_KEY_FALLBACKS.*UNSIGNED"):
                for _ in range(3):
                    clicks.consumer().turn()
        assert landed() == 0
        assert not CounterIncident.objects.exists()
        with override_settings(SECRET_KEY_FALLBACKS=["the next one"]):
            clicks.consumer().turn()
        assert (landed(), Counter.objects.value("a")) == (15, 1)
        assert not CounterIncident.objects.exists()


@pytest.mark.usefixtures("publishing_to_kafka")
def test_a_consumer_of_a_topic_without_the_key_loses_nothing(topic: Any) -> None:
    with override_settings(SECRET_KEY="the next one"):
        publish(7)
    with pytest.raises(UnknownSignature):
        topic.counted()
    assert landed() == 0
    with override_settings(SECRET_KEY_FALLBACKS=["the next one"]):
        topic.counted()
    assert landed() == 7
    assert not CounterIncident.objects.exists()
