"""The charts of the live page: what the ledger says, for eyes and for screen readers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from django_counters import Bucket, token_of
from django_counters.models import Counter, CounterDelta
from django_counters.testing import override_counters
from example_project.live.charts import Chart, fragments, orders
from example_project.live.views import CACHE_KEY
from example_project.settings import COUNTERS
from example_project.tally import ORDERS

NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _as_the_example_declares_it(db: None) -> Iterator[None]:
    cache.delete(CACHE_KEY)
    with override_counters(**COUNTERS), timezone.override(UTC):
        yield


def chart_of(*changes: int) -> Chart:
    starts = [NOON + place * HOUR for place in range(len(changes))]
    return Chart(
        "hour",
        [Bucket(start, start + HOUR, n, abs(n)) for start, n in zip(starts, changes, strict=True)],
    )


def parsed(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(fragments([chart])[f"orders-bars-{chart.by}"])


def order(ago: timedelta) -> None:
    moment = timezone.now() - ago
    CounterDelta.objects.append(ORDERS, 1, token=token_of(f"{ago}", moment))


def test_bars_are_as_tall_as_their_numbers() -> None:
    chart = chart_of(0, 5, 10, 20)
    heights = [bar.height for bar in chart.bars]
    assert heights[0] == 0
    assert heights[3] > 100
    assert [round(heights[3] / height) for height in heights[1:]] == [4, 2, 1]
    assert all(bar.y + bar.height == chart.ground for bar in chart.bars)


def test_bars_stand_beside_each_other_within_the_picture() -> None:
    chart = chart_of(*range(30))
    for bar, following in zip(chart.bars, chart.bars[1:], strict=False):
        assert bar.x + bar.width < following.x
    assert chart.left <= chart.bars[0].x
    assert chart.bars[-1].x + chart.bars[-1].width <= chart.width


@pytest.mark.parametrize(
    ("most", "numbers"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (4, [0, 1, 2, 3, 4]),
        (5, [0, 2, 4, 6]),
        (9, [0, 5, 10]),
        (40, [0, 10, 20, 30, 40]),
        (41, [0, 20, 40, 60]),
        (1999, [0, 500, 1000, 1500, 2000]),
        (2001, [0, 1000, 2000, 3000]),
    ],
)
def test_lines_stand_at_round_numbers_up_to_the_tallest_bar(most: int, numbers: list[int]) -> None:
    assert [line.number for line in chart_of(0, most).lines] == numbers


def test_a_correction_draws_nothing_below_the_ground() -> None:
    bars = chart_of(-3, 2).bars
    assert (bars[0].height, bars[1].height > 0) == (0, True)


def test_a_picture_has_a_title_and_a_description() -> None:
    picture = parsed(chart_of(3, 7, 0))
    texts = {part.get("id"): part.text for part in picture}
    title, described = (texts[name] for name in picture.attrib["aria-labelledby"].split())
    assert (picture.get("role"), title) == ("img", "Orders by hour")
    assert described == (
        "10 orders in the last 3 hours; 7 in the hour from 13:00, which is the most."
    )
    assert [bar[0].text for bar in picture if bar.tag == "rect"] == [
        "12:00: 3",
        "13:00: 7",
        "14:00: 0",
    ]


def test_a_shop_without_orders_has_an_empty_chart() -> None:
    hours, minutes = orders()
    assert (len(hours.buckets), len(minutes.buckets)) == (24, 30)
    assert [bar.height for bar in hours.bars] == [0] * 24
    assert "0 orders in the last 24 hours.<" in fragments([hours])["orders-bars-hour"]


def test_the_charts_are_the_history_of_the_ledger() -> None:
    for ago in (timedelta(0), timedelta(minutes=3), timedelta(hours=5), timedelta(hours=30)):
        order(ago)
    before = timezone.now()
    hours, minutes = orders()
    assert (hours.total, minutes.total, Counter.objects.value(ORDERS)) == (3, 2, 4)
    assert hours.buckets[-1].start <= timezone.now()
    assert before < hours.buckets[-1].end
    assert minutes.buckets[-1].end - minutes.buckets[0].start == timedelta(minutes=30)


def test_the_page_has_pictures_and_tables_without_javascript(client: Client) -> None:
    order(timedelta(minutes=3))
    answer = client.get("/live/")
    page = answer.content.decode()
    assert page.count("<svg") == 2
    for id_, content in fragments(answer.context["charts"]).items():
        assert f'id="{id_}">{content}' in page
    # A table says the same to those who cannot see the picture.
    rows = page.partition('id="orders-rows-minute">')[2].partition("</tbody>")[0]
    assert (rows.count("<tr>"), rows.count("<td>1</td>"), rows.count("<td>0</td>")) == (30, 1, 29)


def test_the_numbers_of_the_page_bring_its_charts(client: Client) -> None:
    before = client.get("/live/counts.json").json()["fragments"]
    page = client.get("/live/").content.decode()
    assert all(f'id="{id_}"' in page for id_ in before)
    order(timedelta(0))
    cache.delete(CACHE_KEY)
    after = client.get("/live/counts.json").json()["fragments"]
    assert after.keys() == before.keys()
    assert "1 order in the last 24 hours; 1 in the hour" in after["orders-bars-hour"]
    assert "<td>1</td>" in after["orders-rows-minute"]
