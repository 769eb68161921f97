"""Adjustments that need a second person: asked for over HTTP, and seen by few."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from django_counters.adjustments import approval
from django_counters.fields import counter_fields
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.rest import expose
from django_counters.testing import override_counters
from django_counters.write.changes import named
from django_counters.write.records import of_record
from tests.rest.asking import header
from tests.rest.conftest import ALL, API, API_TESTS, KINDS, NAMESPACES, As, Client, problem
from tests.rest.test_timing import assert_alike
from tests.rest.two import KEY, ORDER, POLICY, ask, come, decide, holder, listed, see
from tests.testapp.models import Article, Country, Gadget, Post, Release, Song, Track

pytestmark = [*API_TESTS, pytest.mark.usefixtures("two_people")]
FACTS = ("key", "to", "by", "expected", "reason", "case", "requester", "state")
BY_SCOPE = "django_counters.rest.permissions.HasScope"


@contextmanager
def above_ten() -> Iterator[None]:
    """Every counter of the tests needs a second person above ten."""
    own = {name: {**policy, "APPROVE_ABOVE": 10} for name, policy in NAMESPACES.items()}
    fields = [field for model in (Article, Post, Song) for field in counter_fields(model)]
    before = {field: field.approve_above for field in fields}
    try:
        for field in fields:
            vars(field)["approve_above"] = 10
        with override_counters(**own):
            yield
    finally:
        for field, limit in before.items():
            vars(field)["approve_above"] = limit


class TestAsking:
    @pytest.mark.parametrize("kind", KINDS)
    def test_nothing_is_changed_and_a_request_waits(
        self, kind: str, keys: dict[str, str], client: Client
    ) -> None:
        key = keys[kind]
        client.do("increment", key, {"by": 7})
        with above_ten():
            order = {"to": 40, "expected": 7, "reason": "a stocktake", "case": "T-1"}
            answer = client.do("adjust", key, order)
            assert (answer.status_code, answer["Cache-Control"]) == (202, "no-store")
            body = answer.json()
            row = AdjustmentRequest.objects.get()
            assert answer["Location"] == f"{API}/requests/{row.pk}"
            requester = row.requester_name
            facts = (key, 40, None, 7, "a stocktake", "T-1", requester, "waiting")
            assert tuple(body[name] for name in FACTS) == facts
            nobody = {"decider": None, "decided_at": None, "note": "", "adjustment": None}
            assert nobody.items() <= body.items()
            assert body["created_at"].endswith("Z")
            assert client.at(key, "exact").json()["value"] == 7
            assert not CounterAdjustment.objects.exists()
            found = client.get(answer["Location"])
            assert found.json() == {**_plain(body), "value": 7, "last": 0}
            approver = come("boss", "view_counter")
            done = decide(approver, row.pk, body={"expected": 7})
            assert done.json()["value"] == client.at(key, "exact").json()["value"] == 40

    def test_up_to_the_limit_one_person_is_enough(self, clerk: Client) -> None:
        answer = clerk.do("adjust", KEY, {"by": 10, "reason": "a stocktake"})
        assert (answer.status_code, answer.json()["value"]) == (200, 10)
        assert not AdjustmentRequest.objects.exists()

    def test_the_value_need_not_be_known(self, clerk: Client) -> None:
        Counter.objects.increment(KEY, 3)
        assert ask(clerk)["expected"] == 3

    @pytest.mark.parametrize(
        ("order", "status", "name"),
        [
            ({"to": 400, "expected": 5}, 409, "value-changed"),
            ({"to": -11, "expected": 0}, 409, "insufficient-count"),
            ({"to": 400, "reason": "short"}, 400, "invalid"),
        ],
    )
    def test_what_nobody_could_approve_is_not_asked_for(
        self, order: dict[str, Any], status: int, name: str, clerk: Client
    ) -> None:
        with override_counters(stock={**POLICY, "FLOOR": 0}):
            sent = {"reason": "a stocktake", **order}
            problem(clerk.do("adjust", KEY, sent), status, name)
        assert not AdjustmentRequest.objects.exists()

    def test_who_may_not_adjust_may_not_ask(self, boss: Client, as_: As) -> None:
        problem(boss.do("adjust", KEY, ORDER), 404)
        problem(come("ann", "view_counter").do("adjust", KEY, ORDER), 403)
        problem(as_("anonymous").do("adjust", KEY, ORDER), 401)
        assert not AdjustmentRequest.objects.exists()

    def test_the_same_again_is_the_same_request(self, clerk: Client, boss: Client) -> None:
        first = clerk.do("adjust", KEY, ORDER, **header("one"))
        assert decide(boss, first.json()["id"]).status_code == 200
        again = clerk.do("adjust", KEY, ORDER, **header("one"))
        assert (again.status_code, again["Location"]) == (202, first["Location"])
        assert again["Idempotent-Replayed"] == "true"
        assert again.json() == {**first.json(), "replayed": True}
        problem(
            clerk.do("adjust", KEY, {**ORDER, "by": 501}, **header("one")),
            *(422, "idempotency-key-reused"),
        )
        assert AdjustmentRequest.objects.count() == CounterAdjustment.objects.count() == 1
        assert Counter.objects.value(KEY) == 500

    def test_another_key_and_no_key_are_others(self, clerk: Client) -> None:
        keys: list[dict[str, Any]] = [header("one"), header("two"), {}, {}]
        assert len({ask(clerk, **key)["id"] for key in keys}) == 4

    def test_it_is_limited_as_other_changes(self, clerk: Client, boss: Client) -> None:
        limited = {**POLICY, "API": {**POLICY["API"], "limit": "1/day"}}
        with override_counters(stock=limited):
            number = ask(clerk)["id"]
            problem(clerk.do("adjust", KEY, ORDER), 429)
            problem(decide(boss, number, body={"expected": 1}), 409, "value-changed")
            for verb in ("approve", "reject"):
                problem(decide(boss, number, verb), 429)
        assert decide(boss, number).status_code == 200

    @pytest.mark.django_db(databases=["default", "other"])
    def test_requests_of_another_database_are_not_those_of_the_api(
        self, clerk: Client, settings: Any
    ) -> None:
        expose(Post, "likes", **ALL)
        settings.DATABASE_ROUTERS = [f"{__name__}.PostsApart"]
        post = Post.objects.create()
        with above_ten():
            answer = clerk.do("adjust", f"testapp.Post.likes:{post.pk}", ORDER)
            problem(answer, 403, "approval-required")
        for alias in ("default", "other"):
            assert not AdjustmentRequest.objects.using(alias).exists()

    @pytest.mark.django_db(databases=["default", "other"])
    def test_a_record_of_another_database_is_another_one(self, boss: Client, settings: Any) -> None:
        """What is asked for here is neither shown with its value nor approved by that."""
        expose(Post, "likes", **ALL)
        here = Post.objects.create()
        there = Post.objects.using("other").create(pk=here.pk)
        with above_ten():
            number = approval.ask(of_record(here, "likes"), actor="somebody", **ORDER).pk
            settings.DATABASE_ROUTERS = [f"{__name__}.PostsApart"]
            problem(see(boss, number), 404)
            problem(decide(boss, number), 404)
            assert listed(boss, "testapp.Post.likes").json()["results"] == []
        for post in (here, there):
            post.refresh_from_db(using=post._state.db)
            assert post.likes == 0


class PostsApart:
    """Posts are in another database than what is asked for."""

    def db_for_read(self, model: Any, **_: Any) -> str | None:
        return "other" if model is Post else None

    db_for_write = db_for_read


class TestWhoSeesIt:
    def test_who_has_asked_and_who_may_approve(self, clerk: Client, boss: Client, as_: As) -> None:
        number = ask(clerk)["id"]
        others = {
            "adjusts": come("ann", "adjust_counter"),
            "reads": come("bob", "view_counter", "view_adjustmentrequest"),
            "user": as_("user"),
        }
        statuses = {name: see(who, number).status_code for name, who in others.items()}
        assert statuses == dict.fromkeys(others, 404)
        for verb in ("approve", "reject"):
            for who in others.values():
                problem(decide(who, number, verb), 404)
        for who in (clerk, boss):
            assert see(who, number).json()["id"] == number
        assert [len(listed(who).json()["results"]) for who in (clerk, boss)] == [1, 1]
        assert listed(others["adjusts"]).json()["results"] == []
        problem(listed(others["reads"]), 403)
        problem(listed(others["user"]), 404)

    def test_it_is_closed_until_it_is_named(self, clerk: Client) -> None:
        number = ask(clerk)["id"]
        root, closed = come("root", "approve_adjustment"), dict(POLICY["API"])
        del closed["approve"]
        with override_counters(stock={**POLICY, "API": closed}):
            problem(see(root, number), 404)
            problem(listed(root), 404)
            problem(decide(root, number), 404)
            # The requester still sees it.
            assert see(clerk, number).status_code == 200
        assert Counter.objects.value(KEY) == 0

    def test_who_is_not_logged_in_learns_nothing(self, clerk: Client, as_: As) -> None:
        number, visitor = ask(clerk)["id"], as_("anonymous", HTTP_X_REQUEST_ID="r-7")
        token = Client()
        unknown: Any = {"scope": "*:*"}
        token.force_authenticate(user=None, token=unknown)
        for who in (visitor, token):
            for one in (number, number + 1):
                problem(see(who, one), 401)
                problem(decide(who, one), 401)
            problem(listed(who), 401)

    @pytest.mark.parametrize("role", ["user", "staff"])
    def test_hidden_and_unknown_are_the_same(
        self, role: str, clerk: Client, as_: As, pytestconfig: pytest.Config
    ) -> None:
        number, who = ask(clerk)["id"], as_(role, HTTP_X_REQUEST_ID="r-7")
        for use in (see, decide, partial(decide, verb="reject")):
            first, second = partial(use, who, number), partial(use, who, number + 1)
            hidden, unknown = first(), second()
            assert (hidden.content, hidden.headers) == (unknown.content, unknown.headers)
            assert_alike(first, second, 404, bool(pytestconfig.getoption("--slow")))

    @pytest.mark.parametrize(
        "number", ["0", "-1", "01", "x", "1.0", "\N{FULLWIDTH DIGIT ONE}", "9" * 5000, "1/2", "1 "]
    )
    def test_what_is_no_number(self, number: str, boss: Client) -> None:
        problem(see(boss, number), 404)
        problem(decide(boss, number), 404)

    def test_scopes(self) -> None:
        with override_counters(stock={**POLICY, "API": dict.fromkeys(POLICY["API"], BY_SCOPE)}):
            ann = holder("ann", "adjust:stock:a*")
            first, second = (ask(ann, key)["id"] for key in ("stock:ab", "stock:ac"))
            problem(ann.do("adjust", "stock:b", ORDER), 404)
            bob = holder("bob", "approve:stock:ab")
            assert [see(bob, one).status_code for one in (first, second)] == [200, 404]
            assert [one["id"] for one in listed(bob).json()["results"]] == [first]
            assert [one["id"] for one in listed(ann).json()["results"]] == [second, first]
            problem(decide(bob, second), 404)
            problem(decide(holder("cid", "adjust:stock:*"), first), 404)
            problem(decide(ann, first), 403)
            assert decide(bob, first).json()["value"] == 500

    def test_another_account_of_the_same_name(self, clerk: Client) -> None:
        """It is neither shown what the one before has asked for, nor may it approve that."""
        number = ask(clerk)["id"]
        AdjustmentRequest.objects.update(requester_id="4711")
        problem(see(clerk, number), 404)
        assert listed(clerk).json()["results"] == []


class TestFields:
    def test_a_record_that_is_hidden_hides_its_requests(self, clerk: Client, boss: Client) -> None:
        shown, hidden = Post.objects.create(title="yes"), Post.objects.create(title="no")
        expose(Post, "likes", **ALL)
        with above_ten():
            keys = [f"testapp.Post.likes:{post.pk}" for post in (shown, hidden)]
            numbers = [ask(clerk, key)["id"] for key in keys]
            expose(Post, "likes", **ALL, records=Post.objects.filter(title="yes"))
            label = "testapp.Post.likes"
            for who in (clerk, boss):
                assert [see(who, one).status_code for one in numbers] == [200, 404]
                assert [one["key"] for one in listed(who, label).json()["results"]] == keys[:1]
            problem(decide(boss, numbers[1]), 404)
            shown.delete()
            problem(see(boss, numbers[0]), 404)

    def test_a_named_counter_that_is_called_like_a_record(self, clerk: Client) -> None:
        boss, name = come("boss"), "testapp.Country.visits:DE"
        Country.objects.create(code=name)
        row = approval.ask(named(name), by=500, reason="a stocktake", actor="somebody")
        expose(Country, "visits", **ALL)
        problem(see(boss, row.pk), 404)
        assert listed(boss, "testapp.Country.visits").json()["results"] == []

    @pytest.mark.parametrize("kind", ["uuid", "child"])
    def test_keys_that_have_several_texts(self, kind: str, clerk: Client, boss: Client) -> None:
        """A UUID is kept otherwise by some databases, and a child has a key of its own."""
        if kind == "uuid":
            model: Any = Gadget
            record: Any = Gadget.objects.create(id=uuid.uuid4())
            name = "beeps"
        else:
            Track.objects.create()
            model, record, name = Release, Release.objects.create(code="first"), "plays"
            Release.objects.create(code=str(record.track_id))
        expose(model, name, **ALL)
        label = f"{model._meta.label}.{name}"
        key = f"{label}:{record.pk}"
        field = next(one for one in counter_fields(model) if one.name == name)
        with patch.dict(vars(field), approve_above=10):
            number = ask(clerk, key)["id"]
            assert see(clerk, number).json()["key"] == key
            assert [one["key"] for one in listed(boss, label).json()["results"]] == [key]
            assert decide(boss, number).json()["key"] == key
        record.refresh_from_db()
        assert getattr(record, name) == 500


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in body.items() if name != "replayed"}
