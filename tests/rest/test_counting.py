"""Counting over HTTP: one counter, or several of which all are counted or none."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from django_counters import clock
from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8
from tests.rest.conftest import ALL, API_TESTS, KINDS, OPEN, As, problem
from tests.testapp.models import City, Post

pytestmark = API_TESTS
HIGHEST = INT8[1]


def counted(*items: tuple[str, int]) -> dict[str, Any]:
    return {"counters": [{"key": key, "by": by} for key, by in items]}


@pytest.mark.parametrize("kind", KINDS)
def test_up_and_down(kind: str, keys: dict[str, str], as_: As) -> None:
    staff, key = as_("staff"), keys[kind]
    steps = [("increment", {"by": 7}, 7, 7), ("decrement", {"by": 2}, -2, 5)]
    for action, body, applied, value in steps:
        answer = staff.do(action, key, body)
        assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
        told = answer.json()
        assert (told["key"], told["applied"], told["replayed"]) == (key, applied, False)
        assert set(told) == {"key", "value", "applied", "as_of", "consistency", "replayed"}
        # Where counting reads no value, none is told.
        assert told["value"] in ((value,) if told["consistency"] != "unknown" else (None,))
        assert staff.at(key, "exact").json()["value"] == value
    if kind in ("exact", "exact field"):
        assert told["consistency"] == "exact"
    if kind in ("cached", "cached field"):
        assert told["consistency"] == "cached"


@pytest.mark.usefixtures("cached")
def test_where_nothing_is_to_be_returned_no_value_is_told(as_: As) -> None:
    nothing = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10, "returns": "nothing"}, "API": OPEN}
    with override_counters(views=nothing):
        one = as_("user").do("increment", "views:a", {"by": 7})
        assert one.status_code == 200
        many = as_("user").bulk("increment", counted(("views:a", 1), ("views:b", 2)))
        assert many.status_code == 200
        for told in (one.json(), *many.json()["counters"]):
            assert (told["value"], told["consistency"], told["replayed"]) == (
                None,
                "unknown",
                False,
            )
        assert as_("user").at("views:a", "exact").json()["value"] == 8


class TestAmounts:
    def test_no_body_counts_one(self, as_: As) -> None:
        # Nor does a body leave anything behind for the next one.
        bodies: list[Any] = [{"by": 5}, None, {"by": 5}, {}, {"by": 1}]
        answers = [as_("user").do("increment", "likes:a", body).json() for body in bodies]
        assert [answer["applied"] for answer in answers] == [5, 1, 5, 1, 1]
        assert_counts({"likes:a": 13})

    @pytest.mark.parametrize("action", ["increment", "decrement"])
    def test_what_is_no_amount_counts_nothing(self, action: str, as_: As) -> None:
        staff = as_("staff")
        wrong: list[Any] = [0, -1, 1.0, 1.5, "1", True, None, [1], {}, 2**63, 10**30]
        refused = [fields_of(staff.do(action, "likes:a", {"by": by})) for by in wrong]
        assert refused == [["by"]] * len(wrong)
        assert not Counter.objects.exists()

    @pytest.mark.parametrize("kind", ["exact", "cached", "exact field"])
    def test_more_at_once_than_is_declared(self, kind: str, keys: dict[str, str], as_: As) -> None:
        staff, key = as_("staff"), keys[kind]
        assert staff.do("increment", key, {"by": 1_000_000}).status_code == 200
        for action in ("increment", "decrement"):
            body = problem(staff.do(action, key, {"by": 1_000_001}), 400, "invalid")
            assert body["errors"] == [{"field": "by", "detail": f"{key}: at most 1000000 at once."}]
        many = staff.bulk("increment", counted((key, 1_000_001)))
        problem(many, 400, "invalid")
        assert staff.at(key, "exact").json()["value"] == 1_000_000


def fields_of(answer: Any) -> list[str]:
    """What is wrong in a request, which has to be refused."""
    return [error["field"] for error in problem(answer, 400, "invalid")["errors"]]


class TestBounds:
    def test_a_refusal_tells_what_is_available(self, as_: As) -> None:
        staff = as_("staff")
        staff.do("increment", "stock:a", {"by": 98})
        for action, by, name, left, bound in (
            ("increment", 3, "ceiling-exceeded", 2, {"ceiling": 100}),
            ("decrement", 99, "insufficient-count", 98, {"floor": 0}),
        ):
            body = problem(staff.do(action, "stock:a", {"by": by}), 409, name)
            told = {"key": "stock:a", "requested": by, "available": left, **bound}
            assert told.items() <= body.items()
        assert staff.do("decrement", "stock:a", {"by": 98}).json()["value"] == 0

    def test_a_namespace_says_how_much_is_counted_at_once(self, as_: As) -> None:
        with override_counters(likes={"API": {**OPEN, "max_delta": HIGHEST}}):
            assert as_("user").do("increment", "likes:a", {"by": HIGHEST}).status_code == 200
            problem(as_("user").do("increment", "likes:a"), 409, "overflow")
        with override_counters(likes={"API": {**OPEN, "max_delta": 3}}):
            assert as_("staff").do("decrement", "likes:a", {"by": 3}).status_code == 200
            problem(as_("staff").do("decrement", "likes:a", {"by": 4}), 400, "invalid")

    def test_a_quota_says_when_it_resets(self, as_: As) -> None:
        with override_counters(calls={"CEILING": {"month": 10}, "API": ALL}):
            assert as_("user").do("increment", "calls:a", {"by": 8}).status_code == 200
            answer = as_("user").do("increment", "calls:a", {"by": 3})
            body = problem(answer, 429, "quota-exceeded")
            told = {"key": "calls:a", "requested": 3, "available": 2, "ceiling": 10}
            assert {**told, "period": "month"}.items() <= body.items()
            left = datetime.fromisoformat(body["resets_at"]) - clock.utc()
            assert 0 <= int(answer["Retry-After"]) - left.total_seconds() <= 60
            many = as_("user").bulk("increment", counted(("likes:a", 1), ("calls:a", 3)))
            problem(many, 429, "quota-exceeded")
            assert as_("user").do("increment", "calls:a", {"by": 2}).json()["value"] == 10
            # No month ever has room for more than a whole quota: no time is told.
            answer = as_("user").do("increment", "calls:b", {"by": 11})
            assert "retry_after" not in problem(answer, 429, "quota-exceeded")
            assert "Retry-After" not in answer
            # A month that is over never has room again: no time is told.
            at = (clock.utc() - timedelta(days=40)).isoformat()
            assert as_("user").do("increment", "calls:c", {"by": 8, "at": at}).status_code == 200
            answer = as_("user").do("increment", "calls:c", {"by": 3, "at": at})
            assert "retry_after" not in problem(answer, 429, "quota-exceeded")
            assert "Retry-After" not in answer

    def test_a_refusal_of_a_quota_is_not_remembered(self, as_: As) -> None:
        """The same Idempotency-Key counts when there is room again."""
        with override_counters(calls={"CEILING": {"month": 10}, "API": ALL}):
            user = as_("user")
            assert user.do("increment", "calls:a", {"by": 8}).status_code == 200
            for _ in range(2):
                answer = user.do("increment", "calls:a", {"by": 3}, HTTP_IDEMPOTENCY_KEY="once")
                problem(answer, 429, "quota-exceeded")
            Counter.objects.decrement("calls:a")
            answer = user.do("increment", "calls:a", {"by": 3}, HTTP_IDEMPOTENCY_KEY="once")
            assert (answer.json()["value"], answer.json()["replayed"]) == (10, False)


class TestMany:
    def test_all_that_join_a_transaction(self, keys: dict[str, str], as_: As) -> None:
        kinds = ("exact", "sharded", "ledger", "exact field", "slotted field")
        items = [(keys[kind], number) for number, kind in enumerate(kinds, 1)]
        user = as_("user")
        for times in (1, 2):
            answer = user.bulk("increment", counted(*items))
            assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
            body = answer.json()
            assert [(each["key"], each["applied"]) for each in body["counters"]] == items
            assert body["replayed"] is False
            for each, (_, by) in zip(body["counters"], items, strict=True):
                assert each["value"] in (by * times, None)
        read = user.bulk("read", {"keys": [key for key, _ in items], "consistency": "exact"})
        assert [(each["key"], each["value"]) for each in read.json()["counters"]] == [
            (key, 2 * by) for key, by in items
        ]

    def test_one_at_its_bound_stops_all(self, keys: dict[str, str], as_: As) -> None:
        items = [(keys[kind], 5) for kind in ("exact", "ledger", "exact field", "slotted field")]
        full = [*items, ("stock:b", 1), ("stock:a", 101)]
        body = problem(as_("user").bulk("increment", counted(*full)), 409, "ceiling-exceeded")
        assert (body["key"], body["available"]) == ("stock:a", 100)
        for key, _ in full:
            assert as_("user").at(key, "exact").json()["value"] == 0

    def test_a_record_that_is_missing_stops_all(self, keys: dict[str, str], as_: As) -> None:
        missing = "testapp.Post.likes:0"
        asked = counted((keys["exact"], 5), (keys["exact field"], 5), (missing, 1))
        problem(as_("user").bulk("increment", asked), 404)
        for kind in ("exact", "exact field"):
            assert as_("user").at(keys[kind], "exact").json()["value"] == 0

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize(
        "kinds", [("cached", "exact"), ("cached", "cached field"), ("exact field", "cached field")]
    )
    def test_what_no_step_changes_together_is_refused(
        self, kinds: tuple[str, str], keys: dict[str, str], as_: As
    ) -> None:
        asked = counted(*((keys[kind], 1) for kind in kinds))
        problem(as_("user").bulk("increment", asked), 400, "unsupported")
        for kind in kinds:
            assert as_("user").at(keys[kind], "exact").json()["value"] == 0

    def test_one_that_is_there_twice(self, as_: As) -> None:
        body = problem(
            as_("user").bulk("increment", counted(("likes:a", 1), ("likes:a", 2))), 400, "invalid"
        )
        assert body["errors"] == [{"field": "counters", "detail": "A counter is there twice."}]
        assert_counts({"likes:a": 0})

    def test_five_hundred_and_not_one_more(self, as_: As) -> None:
        items = [(f"likes:{number}", 1) for number in range(501)]
        user = as_("user")
        problem(user.bulk("increment", counted(*items)), 400, "invalid")
        problem(user.bulk("read", {"keys": [key for key, _ in items]}), 400, "invalid")
        assert not Counter.objects.exists()
        body = user.bulk("increment", counted(*items[:500])).json()
        assert [each["value"] for each in body["counters"]] == [1] * 500
        keys = [key for key, _ in items[:500]]
        assert len(user.bulk("read", {"keys": keys}).json()["counters"]) == 500


class TestKeys:
    NAMES = (
        *("a/b/c", "/a", "a//b", "100%", "%2F", "%25", "größe", "数", "👍", "?x=1", "#", "a:b:c"),
        *("..", "../likes:b", ";drop", "'\"\\", "a+b", "increment", "exact"),
    )

    def test_a_key_is_what_stands_in_the_path(self, as_: As) -> None:
        user, keys = as_("user"), [f"likes:{name}" for name in self.NAMES]
        for key in keys:
            path = quote(key, safe="")
            assert user.do("increment", path, {"by": 3}).json()["key"] == key
            assert user.at(path).json()["key"] == key
            assert user.at(path, "exact").json()["value"] == 3
        assert_counts(dict.fromkeys(keys, 3))
        assert Counter.objects.filter(key__startswith="likes:").count() == len(keys)

    def test_a_key_may_end_like_a_route(self, as_: As) -> None:
        user, key = as_("user"), "likes:a/exact"
        told = user.do("increment", key, {"by": 3}).json()
        read = user.at(key, "exact").json()
        (many,) = user.bulk("read", {"keys": [key]}).json()["counters"]
        assert {(each["key"], each["value"]) for each in (told, read, many)} == {(key, 3)}
        assert user.at(key).json()["key"] == "likes:a"

    def test_what_is_no_key(self, as_: As) -> None:
        user = as_("user")
        for name in ("a b", "a\nb", "a\0b", "e\u0301", "\u200b", "x" * 10_000, "\u2028"):
            path = quote(f"likes:{name}", safe="")
            for answer in (user.do("increment", path), user.at(path), user.at(path, "exact")):
                assert fields_of(answer) == ["key"], name
            problem(user.bulk("increment", counted((f"likes:{name}", 1))), 400, "invalid")
        assert not Counter.objects.exists()

    def test_a_record_has_one_name(self, as_: As) -> None:
        expose(Post, "likes", **OPEN)
        pk = Post.objects.create().pk
        for text in (f"0{pk}", f"+{pk}", f"{pk}.0", "x", "-1", "9" * 19, "9" * 150, "٣", "1_0"):
            problem(as_("user").do("increment", f"testapp.Post.likes:{quote(text)}"), 404)
        assert as_("user").at(f"testapp.Post.likes:{pk}", "exact").json()["value"] == 0

    def test_a_record_whose_key_is_a_text(self, as_: As) -> None:
        expose(City, "trips", **OPEN)
        City.objects.create(pk="a/b%:ß")
        key = "testapp.City.trips:a/b%:ß"
        assert as_("user").do("increment", quote(key), {"by": 2}).json()["value"] == 2
        body = as_("user").bulk("read", {"keys": [key, "testapp.City.trips:none"]}).json()
        assert [each["value"] for each in body["counters"]] == [2]
        assert body["unknown"] == ["testapp.City.trips:none"]
