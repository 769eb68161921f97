"""What an increment over HTTP is counted by, and when it happened."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import override_settings

from django_counters.models import Counter
from django_counters.registry import registry
from tests.rest import measured
from tests.rest.asking import assert_first, assert_replayed, header
from tests.rest.conftest import API_TESTS, ORIGIN, As, Client, problem
from tests.rest.measured import KINDS, series_of

pytestmark = API_TESTS
FROM: dict[str, Any] = {"HTTP_ORIGIN": ORIGIN}
KOLKATA = timezone(timedelta(hours=5, minutes=30))
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
TAGGED: dict[str, Any] = {"by": 3, "tags": {"country": "DE"}}
EARLIER = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - 2 * DAY


@pytest.fixture(autouse=True)
def keys(namespaces: None) -> Iterator[dict[str, str]]:
    with measured.declared() as found:
        yield found


@pytest.mark.parametrize("kind", KINDS)
class TestEachStrategy:
    def test_counts_by_tag(self, client: Client, keys: dict[str, str], kind: str) -> None:
        key = keys[kind]
        for action, by, tags in (
            ("increment", 5, {"country": "DE"}),
            ("increment", 2, {"country": None}),
            ("increment", 3, {"country": 49}),
            ("decrement", 1, {"country": "DE"}),
        ):
            answer = client.do(action, key, {"by": by, "tags": tags})
            assert answer.status_code == 200, answer.content
        assert series_of(key).by("country").total() == {"DE": 4, "49": 3, None: 2}
        assert client.at(key, "exact").json()["value"] == 9

    def test_counts_then(self, client: Client, keys: dict[str, str], kind: str) -> None:
        key, then = keys[kind], EARLIER.astimezone(KOLKATA).isoformat()
        assert client.do("increment", key, {"by": 3, "at": then}).status_code == 200
        assert client.do("increment", key).status_code == 200
        hours = series_of(key).per("hour").between(EARLIER, EARLIER + HOUR).list()
        assert [hour.value for hour in hours] == [3, 0]
        assert series_of(key).total() == 4

    def test_a_key_counts_once(self, client: Client, keys: dict[str, str], kind: str) -> None:
        body = {**TAGGED, "at": EARLIER.isoformat()}
        first = client.do("increment", keys[kind], body, **header("one"))
        assert_first(first)
        assert_replayed(client.do("increment", keys[kind], body, **header("one")), first)
        assert series_of(keys[kind]).by("country").total() == {"DE": 3}

    def test_other_circumstances_are_another_request(
        self, client: Client, keys: dict[str, str], kind: str
    ) -> None:
        asked = {**TAGGED, "at": EARLIER.isoformat()}
        assert_first(client.do("increment", keys[kind], asked, **header("one")))
        for other in (
            {**asked, "tags": {"country": "FR"}},
            {**asked, "tags": {"country": None}},
            {**asked, "tags": {}},
            {**asked, "at": (EARLIER - DAY).isoformat()},
            {"by": 3, "at": asked["at"]},
            TAGGED,
        ):
            answer = client.do("increment", keys[kind], other, **header("one"))
            problem(answer, 422, "idempotency-key-reused")
        assert series_of(keys[kind]).total() == 3


def test_the_same_moment_may_be_written_in_several_ways(client: Client) -> None:
    first = client.do("increment", "signups:a", {"at": EARLIER.isoformat()}, **header("one"))
    again = {"at": EARLIER.astimezone(KOLKATA).isoformat(timespec="milliseconds")}
    assert_replayed(client.do("increment", "signups:a", again, **header("one")), first)


class TestBulk:
    @pytest.mark.parametrize("kind", [*measured.NAMED, "cached field"])
    def test_counts_all_of_it_by_the_same(
        self, client: Client, keys: dict[str, str], kind: str
    ) -> None:
        body = {**self.body(keys[kind], kind), "at": EARLIER.isoformat()}
        first = client.bulk("increment", body, **header("one"))
        assert_first(first)
        assert_replayed(client.bulk("increment", body, **header("one")), first)
        for item in body["counters"]:
            series = series_of(item["key"])
            hours = series.per("hour").between(EARLIER, EARLIER + HOUR).by("country").list()
            assert [(row.tags, row.total) for row in hours] == [({"country": "DE"}, 3)]

    @pytest.mark.parametrize("kind", ["exact", "cached field"])
    def test_with_others_is_another_request(
        self, client: Client, keys: dict[str, str], kind: str
    ) -> None:
        body = self.body(keys[kind], kind)
        assert_first(client.bulk("increment", body, **header("one")))
        others = ({**body, "tags": {}}, {"counters": body["counters"]})
        for other in (*others, {**body, "at": EARLIER.isoformat()}):
            answer = client.bulk("increment", other, **header("one"))
            problem(answer, 422, "idempotency-key-reused")

    def test_records_and_names_together(self, client: Client, keys: dict[str, str]) -> None:
        both = [keys["exact"], keys["exact field"], keys["slotted field"]]
        body = {"counters": [{"key": key} for key in both], "tags": {"country": "DE"}}
        assert client.bulk("increment", body).status_code == 200
        assert [series_of(key).by("country").total() for key in both] == [{"DE": 1}] * 3

    def test_one_that_cannot_stops_all(self, client: Client, keys: dict[str, str]) -> None:
        for other in ("likes:a", keys["exact field"]):
            counters = [{"key": "signups:a"}, {"key": other}]
            body = {"counters": counters, "tags": {"plan": "pro"}}
            name = "unsupported" if other == "likes:a" else "invalid"
            problem(client.bulk("increment", body), 400, name)
        assert not Counter.objects.exists()

    def test_not_item_by_item(self, client: Client) -> None:
        for more in ({"tags": {"country": "DE"}}, {"at": EARLIER.isoformat()}):
            told = client.bulk("increment", {"counters": [{"key": "signups:a", **more}]})
            (error,) = problem(told, 400, "invalid")["errors"]
            assert error["field"].startswith("counters.0.")
        assert not Counter.objects.exists()

    @staticmethod
    def body(key: str, kind: str) -> dict[str, Any]:
        both = [key] if kind.endswith("field") else [key, f"{key}b"]
        counters = [{"key": one, "by": 3} for one in both]
        return {"counters": counters, "tags": {"country": "DE"}}


NO_TAGS: list[Any] = [
    *(None, [], "DE", 1, [["country", "DE"]], {"country": ["DE"]}, {"country": {"a": 1}}),
    *({"country": True}, {"country": 1.5}, {"country": 2**63}, {"country": 10**400}),
    *({"country": "x" * 61}, {"country": "\0"}, {"country": "a\nb"}, {"country": "|" * 21}),
    *({"town": "Ulm"}, {"": "DE"}, {"x" * 61: "DE"}, {f"t{number}": 1 for number in range(9)}),
]
NO_MOMENTS: list[Any] = [
    *(None, "", "now", 5, 1.5, True, [], {}, "2026", "2026-03-01", "2026-03-01T12:00:00"),
    *("2026-02-30T12:00:00Z", "0001-01-01T00:00:00+10:00", "9999-12-31T23:00:00-10:00"),
    *("2026-03-01T12:00:00+99:00", "x" * 9000, "2999-01-01T00:00:00Z", "12:00Z"),
]


class TestWhatIsRefused:
    @pytest.mark.parametrize("tags", NO_TAGS)
    def test_what_are_no_tags(self, client: Client, tags: Any) -> None:
        self.refused(client, {"tags": tags}, "tags")

    @pytest.mark.parametrize("at", NO_MOMENTS)
    def test_what_is_no_moment(self, client: Client, at: Any) -> None:
        self.refused(client, {"at": at}, "at")

    @staticmethod
    def refused(client: Client, more: dict[str, Any], field: str) -> None:
        """Nothing is made or counted, and little is said."""
        answers = [client.do(action, "signups:a", more) for action in ("increment", "decrement")]
        answers.append(client.bulk("increment", {"counters": [{"key": "signups:a"}], **more}))
        for answer in answers:
            (error, *_) = problem(answer, 400, "invalid")["errors"]
            assert error["field"].partition(".")[0] == field
            assert len(answer.content) < 1500
        assert not Counter.objects.exists()

    @override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata")
    def test_a_project_without_time_zones_needs_an_offset_too(self, client: Client) -> None:
        registry.forget_strategies()
        self.refused(client, {"at": "2026-03-01T12:00:00"}, "at")
        now = datetime.now(UTC)
        assert client.do("increment", "signups:a", {"at": now.isoformat()}).status_code == 200
        assert series_of("signups:a").last("1h").total() == 1

    def test_the_reason_is_told(self, client: Client) -> None:
        told = problem(
            client.do("increment", "signups:a", {"tags": {"town": "Ulm"}}), 400, "invalid"
        )
        assert told["reason"] == "'town' is not declared, but country, plan"
        told = problem(
            client.do("increment", "signups:a", {"at": "2999-01-01T00:00:00Z"}), 400, "invalid"
        )
        assert told["reason"] == "it is more than 5 minutes ahead"

    @pytest.mark.parametrize("key", ["likes:a", "orders:a", "views:a"])
    def test_a_counter_without_periods(self, client: Client, key: str) -> None:
        for more in ({"tags": {"country": "DE"}}, {"at": EARLIER.isoformat()}):
            told = problem(client.do("increment", key, more), 400, "unsupported")
            assert (told["key"], "periods" in told["reason"]) == (key, True)
        assert not Counter.objects.exists()


class TestBeacons:
    def test_a_visitor_says_by_what(self, as_: As) -> None:
        visitor = as_("anonymous")
        for country in ("DE", "FR", "DE"):
            answer = visitor.do("increment", "pings:a", {"tags": {"country": country}}, **FROM)
            assert answer.status_code == 200
        assert series_of("pings:a").by("country").total() == {"DE": 2, "FR": 1}

    @pytest.mark.django_db(transaction=True)
    def test_what_a_visitor_makes_up_is_one_of_few(self, as_: As) -> None:
        visitor = as_("anonymous")
        for number in range(9):
            body = {"tags": {"country": f"c{number}"}}
            assert visitor.do("increment", "pings:a", body, **FROM).status_code == 200
        found = series_of("pings:a").by("country").total()
        assert found == {"~": 6, "c0": 1, "c1": 1, "c2": 1}

    def test_a_visitor_does_not_say_when(self, as_: As) -> None:
        visitor, body = as_("anonymous"), {"at": datetime.now(UTC).isoformat()}
        many = {"counters": [{"key": "pings:a"}], **body}
        for answer in (
            visitor.do("increment", "pings:a", body, **FROM),
            visitor.bulk("increment", many, **FROM),
        ):
            (error,) = problem(answer, 400, "invalid")["errors"]
            assert (error["field"], "logged in" in error["detail"]) == ("at", True)
        assert not Counter.objects.exists()
        assert as_("user").do("increment", "pings:a", body, **FROM).status_code == 200

    def test_a_token_of_nobody_does_not_say_when(self) -> None:
        client, token = Client(), "that of a server"
        client.force_authenticate(AnonymousUser(), token)  # type: ignore[arg-type]
        body = {"at": datetime.now(UTC).isoformat()}
        problem(client.do("increment", "pings:a", body, **FROM), 400, "invalid")
