"""What the doctor and a scrape say of streams: how far behind their consumers are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters.contrib.streams.lag import LAG_SECONDS, behind
from django_counters.features import Finding
from django_counters.metrics.doctor import examine
from django_counters.metrics.samples import samples_of, scraping
from django_counters.models import CounterPosition
from django_counters.registry import registry
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.positions import Position
from tests.streams.conftest import Clicks
from tests.streams.conftest import clicks as clicks  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)
MINUTE = 60_000


def of_streams() -> list[Finding]:
    return [finding for finding in examine() if finding.subject.startswith("stream clicks")]


def lags() -> dict[str, float]:
    *_, scrape = scraping("default")
    found = (one for one in samples_of(scrape) if one.metric.name == LAG_SECONDS.name)
    return {one.labels[1]: one.value for one in found}


@pytest.fixture
def waiting(clicks: Clicks) -> list[str]:
    """Three messages, of a minute each; the first one is counted."""
    now = int(registry.kept(SqlBatches, "default").now().timestamp() * 1000)
    ids = []
    for ago in (2, 1, 0):
        fields = {"key": "a"}
        one = clicks.client.xadd(clicks.parts[0], fields, id=f"{now - ago * MINUTE}-1")
        ids.append(str(one))
    registry.positions("default").put("stream clicks", clicks.parts[0], Position(ids[0]))
    return ids


def test_how_far_behind(clicks: Clicks, waiting: list[str]) -> None:
    first, second = behind("default")
    assert (first.lag, first.is_late) == (timedelta(minutes=2), False)
    assert (second.lag, second.is_late) == (timedelta(0), False)
    (finding,) = of_streams()
    assert (finding.action, finding.needed) == ("120 s behind", False)
    assert lags() == {"clicks": 120}
    clicks.consumer().turn()
    assert of_streams() == []
    assert lags() == {"clicks": 0}


def test_nobody_has_counted_for_long(clicks: Clicks, waiting: list[str]) -> None:
    clicks.client.xadd(clicks.parts[1], {"key": "a"}, id="1-1")
    rows = CounterPosition._base_manager.all()
    rows.update(moved_at=F("moved_at") - timedelta(minutes=11))
    # What waits in the first part came a minute ago; that of the second one long before.
    assert [part.is_late for part in behind("default")] == [False, True]
    late = [finding for finding in of_streams() if finding.needed]
    assert [finding.command for finding in late] == ["manage.py counters consume clicks"]
    assert "for 10 minutes" in late[0].action


def test_another_stream_has_taken_its_place(clicks: Clicks, waiting: list[str]) -> None:
    clicks.client.delete(clicks.parts[0])
    clicks.client.xadd(clicks.parts[0], {"key": "a"}, id="5-1")
    (finding,) = of_streams()
    assert finding.needed
    assert "beyond its end" in finding.action
    assert lags() == {}


def test_a_redis_that_is_away(clicks: Clicks) -> None:
    away = clicks.declared(LOCATION="unix:///nowhere/at/all")
    with override_settings(COUNTERS_STREAMS={"clicks": away}):
        assert [finding.needed for finding in of_streams()] == [True, True]
        assert lags() == {}


def test_without_streams_nothing_is_asked() -> None:
    from django.db import connection

    with CaptureQueriesContext(connection) as queries:
        assert behind("default") == ()
    assert len(queries) == 0
