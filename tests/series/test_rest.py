"""What was counted over time and by tag, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import override_settings
from django.utils import timezone

from django_counters import clock
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry
from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.rest import measured
from tests.rest.conftest import ALL, API_TESTS, OPEN, As, Client, problem
from tests.rest.measured import KINDS, MEASURED, land
from tests.testapp.models import Story

pytestmark = API_TESTS
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# Half past, for nothing shall begin meanwhile.
NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0)
TODAY = NOW.replace(hour=0, minute=0)


@pytest.fixture(autouse=True)
def keys(namespaces: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Days are those of UTC."""
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    with override_settings(TIME_ZONE="UTC"), measured.declared() as found:
        CounterMeasure.objects.all().delete()
        registry.forget_strategies()
        yield found
    registry.forget_strategies()


def ask(who: Client, key: str, *query: tuple[str, str], **parameters: str) -> Any:
    return who.at(key, "series?" + urlencode([*query, *parameters.items()]))


def told(who: Client, key: str, *query: tuple[str, str], **parameters: str) -> dict[str, Any]:
    answer = ask(who, key, *query, **parameters)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    assert body["key"] == key
    return body


def values(part: dict[str, Any]) -> list[int]:
    return [point["value"] for point in part["points"]]


def count(client: Client, key: str, by: int, at: datetime = NOW, **tags: str) -> None:
    body = {"by": by, "at": at.isoformat(), "tags": tags}
    assert client.do("increment", key, body).status_code == 200


def text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("kind", KINDS)
class TestEachStrategy:
    def test_by_period(self, client: Client, keys: dict[str, str], kind: str) -> None:
        count(client, keys[kind], 5, NOW - 2 * DAY)
        count(client, keys[kind], 2)
        land()
        body = told(client, keys[kind], per="day", last="3")
        starts = [TODAY - 2 * DAY, TODAY - DAY, TODAY]
        assert body["points"] == [
            {"start": text(start), "end": text(start + DAY), "value": value}
            for start, value in zip(starts, (5, 0, 2), strict=True)
        ]
        assert (body["per"], body["tz"], body["total"]) == ("day", "UTC", 7)
        assert "splits" not in body
        assert body["as_of"]

    def test_by_tag(self, client: Client, keys: dict[str, str], kind: str) -> None:
        count(client, keys[kind], 5, NOW - DAY, country="DE")
        count(client, keys[kind], 2, country="DE")
        count(client, keys[kind], 1)
        land()
        body = told(client, keys[kind], per="day", last="2", by="country")
        rows = body["splits"]
        found = [(row["tags"]["country"], row["total"], values(row)) for row in rows]
        assert found == [("DE", 7, [5, 2]), (None, 1, [0, 1])]
        assert (body["total"], values(body)) == (8, [5, 3])
        assert rows[0]["points"][0]["start"] == text(TODAY - DAY)

    def test_all_that_is_kept(self, client: Client, keys: dict[str, str], kind: str) -> None:
        count(client, keys[kind], 5, NOW - 9 * DAY, country="DE")
        count(client, keys[kind], 2)
        land()
        body = told(client, keys[kind])
        assert [body[name] for name in ("per", "tz", "total", "points")] == [None, None, 7, []]
        assert told(client, keys[kind], by="country")["splits"] == [
            {"tags": {"country": "DE"}, "total": 5, "points": []},
            {"tags": {"country": None}, "total": 2, "points": []},
        ]

    def test_nothing(self, client: Client, keys: dict[str, str], kind: str) -> None:
        for more in ({}, {"by": "country"}):
            body = told(client, keys[kind], per="hour", last="2", **more)
            assert (body["total"], values(body), body.get("splits", [])) == (0, [0, 0], [])


class TestQuestions:
    @pytest.fixture(autouse=True)
    def _counted(self, client: Client) -> None:
        for ago, country, plan, by in (
            (3, "DE", "pro", 1),
            (2, "DE", "free", 10),
            (1, "FR", "pro", 100),
            (0, "", "pro", 1000),
        ):
            count(client, "signups:a", by, NOW - ago * HOUR, country=country, plan=plan)

    @pytest.mark.parametrize(
        ("query", "total"),
        [
            ([("where.country", "DE")], 11),
            ([("where.country", "DE"), ("where.country", "FR")], 111),
            ([("where.country", "")], 1000),
            ([("where.country", "DE"), ("where.plan", "pro")], 1),
            ([("where.country", "XX")], 0),
            ([("last", "90m")], 1100),
            ([("per", "hour"), ("last", "2")], 1100),
            ([("per", "hour"), ("last", "2h")], 1110),
            ([("since", text(TODAY - DAY)), ("until", text(TODAY + DAY))], 1111),
            ([("per", "hour"), ("since", text(NOW - 2 * HOUR)), ("until", text(NOW - HOUR))], 110),
            ([("since", (TODAY - DAY).strftime("%Y-%m-%dT%H:%M+00:00"))], 1111),
        ],
    )
    def test_which_part(self, as_: As, query: list[tuple[str, str]], total: int) -> None:
        assert told(as_("anonymous"), "signups:a", *query)["total"] == total

    @pytest.mark.parametrize(
        "by",
        [
            [("by", "country,plan")],
            [("by", "country"), ("by", "plan")],
            [("by", "country,plan,plan")],
        ],
    )
    def test_several_tags(self, client: Client, by: list[tuple[str, str]]) -> None:
        rows = told(client, "signups:a", *by)["splits"]
        found = [(row["tags"]["country"], row["tags"]["plan"], row["total"]) for row in rows]
        assert found[0] == (None, "pro", 1000)
        assert len(found) == 4

    def test_one_total_of_a_time(self, client: Client) -> None:
        body = told(client, "signups:a", last="2h")
        (point,) = body["points"]
        assert point["start"] == text(NOW.replace(minute=0) - 2 * HOUR)
        assert (point["value"], body["total"], body["per"]) == (1110, 1110, None)

    def test_of_other_clocks(self, client: Client) -> None:
        body = told(client, "signups:a", per="day", last="2", tz="Asia/Tokyo")
        assert body["tz"] == "Asia/Tokyo"
        assert {point["start"][11:] for point in body["points"]} == {"15:00:00.000000Z"}

    def test_moments_are_in_utc_wherever_the_project_is(self, client: Client) -> None:
        with override_settings(TIME_ZONE="Europe/Vienna"):
            body = told(client, "signups:a", per="hour", last="1")
        assert body["points"][0]["start"] == text(NOW.replace(minute=0))

    def test_without_time_zones(self, client: Client) -> None:
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata"):
            count(client, "signups:b", 1000)
            body = told(client, "signups:b", per="hour", last="1")
        assert body["points"] == [
            {
                "start": text(NOW.replace(minute=0)),
                "end": text(NOW.replace(minute=0) + HOUR),
                "value": 1000,
            }
        ]

    def test_of_a_ledger_without_periods(self, client: Client) -> None:
        Counter.objects.increment("orders:a", 3)
        assert told(client, "orders:a")["total"] == 3
        problem(ask(client, "orders:a", by="country"), 400, "unsupported")

    def test_what_is_not_kept(self, client: Client) -> None:
        with override_counters(signups={**MEASURED, "KEEP": {"hour": 2}}):
            answer = ask(client, "signups:a", per="hour", last="10d")
            body = problem(answer, 404, "history-not-kept")
            assert body["since"] == (NOW.replace(minute=0) - 2 * DAY).isoformat()
            assert told(client, "signups:a", per="day", last="10")["total"] == 1111
            kept = told(client, "signups:a", per="hour", last="10d", partial="true")
            assert kept["total"] == sum(values(kept)) > 0


WRONG: list[tuple[dict[str, str], str]] = [
    *(({"per": one}, "per") for one in ("", "year", "DAY", "x" * 9000, "\0")),
    *(({"per": "day", "last": one}, "last") for one in ("", "0", "-1", "1.5", "d", "7y", "07d")),
    *(
        ({"per": "day", "last": one}, "last")
        for one in ("10001", "9" * 9, "9" * 9000, "999999999w")
    ),
    *(({"per": "day", "since": one}, "since") for one in ("", "now", "2026-03-01T00:00:00")),
    ({"per": "day", "since": "0001-01-01T00:00:00+10:00"}, "since"),
    ({"per": "day", "since": "0001-01-01T00:00:00Z"}, ""),
    ({"per": "day", "since": text(NOW + 9 * DAY)}, ""),
    ({"per": "day", "until": text(NOW)}, "until"),
    ({"per": "day", "since": text(NOW), "until": text(NOW - DAY)}, "until"),
    ({"per": "day", "since": text(NOW), "last": "3"}, "last"),
    *(({"tz": one}, "tz") for one in ("", "Nowhere", "../../etc/passwd", "\0", "x" * 60, "Europe")),
    *(({"by": one}, "by") for one in ("town", ",".join("abcdefghi"))),
    *(({"by": one}, "by.0") for one in ("", "x" * 61, ",country")),
    *(({f"where.{one}": "x"}, f"where.{one}") for one in ("town", "self", "country.x", "\0")),
    ({"where.": "x"}, "where"),
    *(({"where.country": one}, "where.country") for one in ("x" * 61, "\0", "a\nb")),
    *(({one: "x"}, one) for one in ("where", "format", "Per", "country", "where[country]", "")),
    ({"last": "3"}, ""),
    ({"since": text(NOW)}, ""),
]


class TestWhatIsRefused:
    @pytest.mark.parametrize(("query", "field"), WRONG)
    def test_what_cannot_be_asked(self, client: Client, query: dict[str, str], field: str) -> None:
        body = problem(ask(client, "signups:a", **query), 400, "invalid")
        assert {error["field"] for error in body["errors"]} == {field}
        # Whatever the counter has counted.
        count(client, "signups:a", 1, country="DE")
        problem(ask(client, "signups:a", **query), 400, "invalid")

    @pytest.mark.parametrize("name", ["per", "last", "since", "until", "tz"])
    def test_what_is_there_twice(self, client: Client, name: str) -> None:
        body = problem(ask(client, "signups:a", (name, "1"), (name, "1")), 400, "invalid")
        assert [error["field"] for error in body["errors"]] == [name]

    def test_too_many_parameters(self, client: Client) -> None:
        problem(ask(client, "signups:a", *[("where.country", "x")] * 1001), 400)

    @pytest.mark.parametrize("key", ["likes:a", "views:a"])
    def test_a_counter_without_periods(self, client: Client, key: str) -> None:
        queries: list[dict[str, str]] = [{}, {"per": "day"}, {"by": "country"}]
        for query in (*queries, {"where.country": "DE"}):
            body = problem(ask(client, key, **query), 400, "unsupported")
            assert body["key"] == key
            assert "name periods in PER" in body["reason"]

    def test_what_is_too_long(self, client: Client) -> None:
        assert len(told(client, "signups:a", per="hour", last="1000")["points"]) == 1000
        for country in ("DE", "FR"):
            count(client, "signups:a", 1, country=country)
        for query in (
            {"per": "hour", "last": "1001"},
            {"per": "hour", "last": "50d"},
            {"per": "hour", "last": "501", "by": "country"},
        ):
            body = problem(ask(client, "signups:a", **query), 400, "invalid")
            assert "at most 1,000" in body["errors"][0]["detail"]
        body = told(client, "signups:a", per="hour", last="500", by="country")
        assert [len(split["points"]) for split in body["splits"]] == [500, 500]


class TestWhoMay:
    @pytest.mark.parametrize("kind", ["exact", "exact field"])
    def test_who_may_read_may_not_ask(self, as_: As, keys: dict[str, str], kind: str) -> None:
        expose(Story, "opens", **OPEN)
        with override_counters(signups={**MEASURED, "API": OPEN}):
            found = [ask(as_(role), keys[kind]).status_code for role in ("anonymous", "user")]
        assert found == [401, 403]

    @pytest.mark.parametrize("kind", ["exact", "exact field"])
    def test_it_is_that_of_the_history(self, as_: As, keys: dict[str, str], kind: str) -> None:
        expose(Story, "opens", history="staff")
        with override_counters(signups={**MEASURED, "API": {"history": "staff"}}):
            found = [ask(as_(role), keys[kind]).status_code for role in ("user", "staff")]
            assert found == [404, 200]
            assert ask(as_("staff"), keys[kind])["Cache-Control"].startswith("private")

    def test_a_record_that_is_hidden_has_none(self, client: Client, keys: dict[str, str]) -> None:
        expose(Story, "opens", **ALL, records=Story.objects.none())
        problem(ask(client, keys["exact field"]), 404)

    def test_another_record_has_its_own(self, client: Client, keys: dict[str, str]) -> None:
        other = f"testapp.Story.opens:{Story.objects.create().pk}"
        count(client, keys["exact field"], 3)
        count(client, other, 4)
        both = (keys["exact field"], other)
        assert [ask(client, key).json()["total"] for key in both] == [3, 4]


class TestCaching:
    def test_for_a_minute(self, client: Client) -> None:
        count(client, "signups:a", 3)
        first = ask(client, "signups:a", per="day", last="3")
        assert first["Cache-Control"] == "public, max-age=60"
        count(client, "signups:a", 4)
        assert ask(client, "signups:a", per="day", last="3").json()["total"] == 7

    def test_the_answer_does_not_depend_on_the_time_zone_of_the_request(
        self, client: Client
    ) -> None:
        count(client, "signups:a", 3)
        with timezone.override("Asia/Tokyo"):
            body = told(client, "signups:a", per="day", last="2")
        assert body["tz"] == "UTC"

    def test_what_is_known_is_not_sent_again(self, client: Client) -> None:
        count(client, "signups:a", 3)
        mark = ask(client, "signups:a", per="day", last="3")["ETag"]
        same = client.at("signups:a", "series?per=day&last=3", HTTP_IF_NONE_MATCH=mark)
        assert (same.status_code, same.content, same["ETag"]) == (304, b"", mark)
        assert same["Cache-Control"] == "public, max-age=60"
        count(client, "signups:a", 1)
        other = client.at("signups:a", "series?per=day&last=3", HTTP_IF_NONE_MATCH=mark)
        assert (other.status_code, other.json()["total"]) == (200, 4)

    def test_cached_counters_are_those_of_the_last_flush(self, client: Client) -> None:
        count(client, "reads:a", 3)
        body = told(client, "reads:a", per="day", last="1")
        assert (body["total"], body["as_of"]) == (0, None)
        land()
        body = told(client, "reads:a", per="day", last="1")
        assert (body["total"], body["as_of"] is None) == (3, False)
