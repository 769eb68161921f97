"""Distinct actors over HTTP: whose an increment is, and how many there were."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.contrib import series, uniques
from django_counters.contrib.uniques import CounterMember, CounterUnique, Distinct
from django_counters.contrib.uniques.rest import MOST_SETS
from django_counters.contrib.uniques.sketches import Sketch
from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.rest.asking import assert_first, assert_replayed, header
from tests.rest.conftest import (
    ALL,
    API,
    API_TESTS,
    ORIGIN,
    As,
    Client,
    as_,
    client,
    fields,
    isolated,
    namespaces,
    problem,
)
from tests.rest.measured import land
from tests.testapp.models import Talk

pytestmark = API_TESTS
DAY = timedelta(days=1)
NOW = datetime.now(UTC).replace(minute=30, second=0, microsecond=0)
FROM: dict[str, Any] = {"HTTP_ORIGIN": ORIGIN}
_BEACON = {"increment": "beacon", "origins": [ORIGIN], "limit": "600/min", "history": "anyone"}
_COUNTED: dict[str, Any] = {"UNIQUE": ["hour", "day"], "TAGS": {"country": 2}, "PER": ["day"]}
NAMESPACES: dict[str, dict[str, Any]] = {
    "people": {**_COUNTED, "API": ALL},
    "crowds": {**_COUNTED, "STRATEGY": "sharded", "API": ALL},
    "trips": {**_COUNTED, "STRATEGY": "ledger", "API": ALL},
    "reads": {**_COUNTED, "STRATEGY": "cached", "OPTIONS": {"timeout": 10}, "API": ALL},
    "visits": {**_COUNTED, "API": _BEACON},
    "nets": {**_COUNTED, "API": {**_BEACON, "who": "address"}},
    "plain": {"PER": ["day"], "API": ALL},
    "cool": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, "API": ALL},
}
NAMED = {"exact": "people:a", "sharded": "crowds:a", "ledger": "trips:a", "cached": "reads:a"}
FIELDS = {"exact field": "seats", "slotted field": "claps", "cached field": "views"}
KINDS = [*NAMED, *FIELDS]


@pytest.fixture(autouse=True)
def keys(namespaces: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """One key of each kind."""
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    expose(Talk, *FIELDS.values(), **ALL)
    talk = Talk.objects.create()
    fields = {kind: f"testapp.Talk.{name}:{talk.pk}" for kind, name in FIELDS.items()}
    with override_counters(**NAMESPACES):
        yield {**NAMED, **fields}


def ask(who: Client, key: str, **parameters: str) -> Any:
    land()
    return who.at(key, "unique?" + urlencode(parameters))


def told(who: Client, key: str, **parameters: str) -> dict[str, Any]:
    answer = ask(who, key, **parameters)
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


def seen(key: str) -> int:
    land()
    return uniques.count(series.of(key).last("1d"))


def count(who: Client, key: str, body: Any = None, status: int = 200, **extra: Any) -> Any:
    answer = who.do("increment", key, body, **extra)
    assert answer.status_code == status, answer.content
    return answer


@pytest.mark.parametrize("kind", KINDS)
class TestEachStrategy:
    def test_a_user_is_one(self, as_: As, keys: dict[str, str], kind: str) -> None:
        first, second = as_("user"), as_("user")
        for user in (first, first, second):
            count(user, keys[kind])
        body = told(first, keys[kind], per="day", last="2")
        assert (body["key"], body["value"], body["exact"], body["error"]) == (
            keys[kind],
            2,
            True,
            0,
        )
        assert [point["value"] for point in body["points"]] == [0, 2]
        assert "splits" not in body

    def test_so_it_is_in_python(self, as_: As, keys: dict[str, str], kind: str) -> None:
        count(as_("user"), keys[kind])
        user = User.objects.get()
        if kind in NAMED:
            Counter.objects.increment(keys[kind], who=user)
        else:
            getattr(Talk.objects.get(), FIELDS[kind]).increment(who=user)
        assert told(as_("user"), keys[kind])["value"] == 1

    def test_another_is_another_request(
        self, client: Client, keys: dict[str, str], kind: str
    ) -> None:
        first = count(client, keys[kind], {"who": "x"}, **header("one"))
        assert_first(first)
        again = client.do("increment", keys[kind], {"who": "x"}, **header("one"))
        assert_replayed(again, first)
        other = client.do("increment", keys[kind], {"who": "y"}, **header("one"))
        problem(other, 422, "idempotency-key-reused")
        assert told(client, keys[kind])["value"] == 1

    def test_nobody_is_taken_away(self, client: Client, keys: dict[str, str], kind: str) -> None:
        count(client, keys[kind], {"by": 3})
        assert client.do("decrement", keys[kind]).status_code == 200
        refused = client.do("decrement", keys[kind], {"who": "x"})
        (error,) = problem(refused, 400, "invalid")["errors"]
        assert error["field"] == "who"
        assert told(client, keys[kind])["value"] == 1


class TestWhoMaySpeak:
    def test_a_user_for_nobody_else(self, as_: As) -> None:
        user = as_("user")
        own = str(User.objects.get().pk)
        for who, status in (("somebody", 403), (own, 200)):
            many = {"counters": [{"key": "people:a"}], "who": who}
            assert user.do("increment", "people:a", {"who": who}).status_code == status
            assert user.bulk("increment", many).status_code == status
        assert (Counter.objects.value("people:a"), seen("people:a")) == (2, 1)

    def test_who_may_adjust_for_anybody(self, as_: As) -> None:
        for who in ("7", "8"):
            count(as_("permitted"), "people:a", {"who": who})
        for number in (7, 8):
            Counter.objects.increment("people:a", who=number)
        assert seen("people:a") == 2

    def test_who_may_adjust_one_not_for_another(self, as_: As) -> None:
        closed = {**NAMESPACES["crowds"], "API": {**ALL, "adjust": None}}
        body = {"counters": [{"key": "people:a"}, {"key": "crowds:a"}], "who": "7"}
        with override_counters(**{**NAMESPACES, "crowds": closed}):
            problem(as_("permitted").bulk("increment", body), 403)
        assert not Counter.objects.exists()

    def test_a_token_of_nobody_for_nobody(self) -> None:
        client = Client()
        client.force_authenticate(AnonymousUser(), "that of a server")  # type: ignore[arg-type]
        problem(client.do("increment", "visits:a", {"who": "7"}, **FROM), 403)
        count(client, "visits:a", **FROM)
        assert seen("visits:a") == 0

    def test_a_visitor_is_no_user(self, as_: As) -> None:
        count(as_("user"), "visits:a")
        pk = User.objects.get().pk
        for who in (str(pk), f"visitor:{pk}", "b", "b"):
            count(as_("anonymous"), "visits:a", {"who": who}, **FROM)
        assert seen("visits:a") == 4
        Counter.objects.increment("visits:a", who="visitor:b")
        assert seen("visits:a") == 4

    def test_without_a_name_nobody(self, as_: As) -> None:
        count(as_("anonymous"), "visits:a", **FROM)
        assert (Counter.objects.value("visits:a"), seen("visits:a")) == (1, 0)

    def test_by_address_where_that_is_declared(self, as_: As) -> None:
        visitor = as_("anonymous")
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"):
            count(visitor, "nets:a", **FROM, REMOTE_ADDR=address)
            count(visitor, "visits:a", **FROM, REMOTE_ADDR=address)
        assert (seen("nets:a"), seen("visits:a")) == (3, 0)
        count(visitor, "nets:a", {"who": "b"}, **FROM, REMOTE_ADDR="192.0.2.1")
        count(as_("user"), "nets:a", REMOTE_ADDR="192.0.2.1")
        assert seen("nets:a") == 5
        both = {"counters": [{"key": "nets:a"}, {"key": "visits:a"}]}
        assert (
            visitor.bulk("increment", both, **FROM, REMOTE_ADDR="198.51.100.9").status_code == 200
        )
        assert (seen("nets:a"), seen("visits:a")) == (5, 0)


WRONG: list[Any] = [None, "", " ", 7, True, [], {}, "x" * 57, "a\nb", "\0"]


class TestWhatIsRefused:
    @pytest.mark.parametrize("who", WRONG, ids=map(str, range(len(WRONG))))
    def test_what_is_nobody(self, as_: As, who: Any) -> None:
        body: dict[str, Any] = {"who": who}
        many = {"counters": [{"key": "visits:a"}], **body}
        for sender in (as_("anonymous"), as_("superuser")):
            for answer in (
                sender.do("increment", "visits:a", body, **FROM),
                sender.bulk("increment", many, **FROM),
            ):
                (error,) = problem(answer, 400, "invalid")["errors"]
                assert error["field"] == "who"
        assert not Counter.objects.exists()

    def test_where_nobody_is_counted(self, client: Client) -> None:
        problem(client.do("increment", "plain:a", {"who": "x"}), 400, "unsupported")
        both = {"counters": [{"key": "people:a"}, {"key": "plain:a"}], "who": "x"}
        problem(client.bulk("increment", both), 400, "unsupported")
        problem(ask(client, "plain:a"), 400, "unsupported")
        assert not Counter.objects.exists()
        count(client, "plain:a")

    def test_too_many_points(self, client: Client) -> None:
        body = problem(ask(client, "people:a", per="hour", last="1001"), 400, "invalid")
        assert "at most 1,000" in body["errors"][0]["detail"]
        for wrong in ({"per": "minute", "last": "2"}, {"per": "day", "by": "town"}):
            problem(ask(client, "people:a", **wrong), 400, "invalid")

    def test_who_may_not_read_history(self, as_: As) -> None:
        api = {**ALL, "history": "staff"}
        with override_counters(**{**NAMESPACES, "people": {**_COUNTED, "API": api}}):
            found = [ask(as_(role), "people:a") for role in ("anonymous", "user", "staff")]
            assert [answer.status_code for answer in found] == [401, 403, 200]
            assert found[2]["Cache-Control"].startswith("private")


class TestBulk:
    @pytest.mark.parametrize("who", [None, "x"])
    def test_one_of_all(self, client: Client, who: str | None) -> None:
        body: dict[str, Any] = {"counters": [{"key": key} for key in ("people:a", "people:b")]}
        body |= {"who": who} if who else {}
        first = client.bulk("increment", body, **header("one"))
        assert_first(first)
        assert_replayed(client.bulk("increment", body, **header("one")), first)
        other = client.bulk("increment", {**body, "who": "other"}, **header("one"))
        problem(other, 422, "idempotency-key-reused")
        assert [seen(key) for key in ("people:a", "people:b")] == [1, 1]

    def test_beside_those_that_count_nobody(self, as_: As, keys: dict[str, str]) -> None:
        mixed = ["plain:a", "likes:a", "people:a", keys["exact field"]]
        for user in (as_("user"), as_("user")):
            answer = user.bulk("increment", {"counters": [{"key": key} for key in mixed]})
            assert [one["value"] for one in answer.json()["counters"]] in ([1] * 4, [2] * 4)
        assert (seen("people:a"), Counter.objects.value("plain:a")) == (2, 2)
        assert told(as_("user"), keys["exact field"])["value"] == 2

    @pytest.mark.django_db(transaction=True)
    def test_in_redis_in_one_step_only(self, as_: As) -> None:
        api = {"counters": [{"key": "reads:a"}, {"key": "cool:a"}]}
        problem(as_("user").bulk("increment", api), 400, "unsupported")
        assert as_("user").bulk("increment", {"counters": [{"key": "reads:a"}]}).status_code == 200
        assert seen("reads:a") == 1


class TestQuestions:
    @pytest.fixture(autouse=True)
    def _counted(self, client: Client) -> None:
        for who, ago, country in (
            *(("a", 1, "DE"), ("b", 1, "FR"), ("a", 0, "DE")),
            *(("c", 0, "DE"), ("d", 0, "IT"), ("b", 0, None)),
        ):
            at, tags = (NOW - ago * DAY).isoformat(), {"country": country}
            count(client, "people:a", {"who": who, "at": at, "tags": tags})

    def test_nobody_is_added_up(self, client: Client) -> None:
        body = told(client, "people:a", per="day", last="2")
        assert ([point["value"] for point in body["points"]], body["value"]) == ([2, 4], 4)
        assert told(client, "people:a")["value"] == 4

    def test_by_tag(self, client: Client) -> None:
        body = told(client, "people:a", last="2d", by="country")
        found = {split["tags"]["country"]: split["value"] for split in body["splits"]}
        assert found == {"DE": 2, "FR": 1, "~": 1, None: 1}
        assert (body["value"], body["points"]) == (4, [])
        assert told(client, "people:a", last="2d", **{"where.country": "DE"})["value"] == 2

    def test_of_a_day(self, client: Client) -> None:
        body = told(client, "people:a", per="day", last="1", tz="UTC")
        (point,) = body["points"]
        midnight = NOW.replace(hour=0, minute=0).isoformat(timespec="microseconds")
        assert point["start"] == midnight.replace("+00:00", "Z")
        assert (body["tz"], body["as_of"] is None) == ("UTC", False)

    def test_an_estimate_says_so(self, client: Client) -> None:
        with Counter.objects.collect():
            for who in range(600):
                Counter.objects.increment("people:a", who=who)
        body = told(client, "people:a", per="day", last="1", by="country")
        for part in (body, body["points"][0], body["splits"][0]):
            assert (part["exact"], part["error"]) == (False, 0.0081)
            assert abs(part["value"] - 604) < 3 * 0.0081 * 604

    def test_caches_may_keep_it(self, client: Client) -> None:
        path = "unique?per=day&last=1"
        first = client.at("people:a", path)
        again = client.at("people:a", path, HTTP_IF_NONE_MATCH=first["ETag"])
        assert (first["Cache-Control"], again.status_code) == ("public, max-age=60", 304)
        count(client, "people:a", {"who": "e"})
        later = client.at("people:a", path, HTTP_IF_NONE_MATCH=first["ETag"])
        assert (later.status_code, later.json()["value"]) == (200, 5)


@pytest.mark.parametrize("table", ["sets", "members"])
def test_too_many_sets_are_not_read(client: Client, table: str) -> None:
    count(client, "people:a", {"who": "e"})
    land()
    model: Any = CounterUnique if table == "sets" else CounterMember
    sketch = Sketch.of([7])
    more = {"kind": sketch.kind, "body": sketch.body} if table == "sets" else {"member": 7}
    for row in CounterMember.objects.filter(key="people:a"):
        where = {name: getattr(row, name) for name in ("measure_id", "key", "period", "start")}
        model.objects.bulk_create(
            model(**where, **more, tags=f"c{number}") for number in range(MOST_SETS)
        )
    for parameters in ({}, {"per": "hour", "last": "1"}, {"by": "country"}):
        with CaptureQueriesContext(connection) as queries:
            body = problem(ask(client, "people:a", **parameters), 400, "invalid")
        assert "at most" in body["errors"][0]["detail"]
        assert not [query for query in queries if '"body"' in query["sql"]]


def test_nothing_is_zero(client: Client) -> None:
    body = told(client, "people:a", per="day", last="2", by="country")
    assert [point["value"] for point in body["points"]] == [0, 0]
    assert (body["value"], body["exact"], body["splits"]) == (0, True, [])
    assert isinstance(uniques.count(series.of("people:a").last("1d")), Distinct)


def test_a_user_with_a_long_key_is_one_actor() -> None:
    robot = User(pk="r" * 65, username="robot")
    client = Client()
    client.force_authenticate(robot)
    for _ in range(2):
        assert client.post(f"{API}/counters/people:a/increment").status_code == 200
    land()
    assert uniques.count(series.of("people:a").per("day").last(1)) == 1
