"""A second person decides over HTTP: once, on what was seen, and not on their own request."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters.adjustments import approval
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.write.changes import named
from tests.concurrency.crowd import Threads
from tests.rest.asking import header
from tests.rest.conftest import API, API_TESTS, Client, problem
from tests.rest.two import KEY, ORDER, POLICY, ask, come, decide, listed, see
from tests.stores.test_failures import lost_at_commit

pytestmark = [*API_TESTS, pytest.mark.usefixtures("two_people")]
DEAD = {**POLICY, "STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}


def state_of(number: int) -> str:
    return AdjustmentRequest.objects.get(pk=number).state


def test_an_approval_adjusts(clerk: Client, boss: Client) -> None:
    Counter.objects.increment(KEY, 7)
    number = ask(clerk, to=500, case="T-1")["id"]
    answer = decide(boss, number, body={"expected": 7}, HTTP_X_REQUEST_ID="r-7")
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    body = answer.json()
    row = CounterAdjustment.objects.get()
    told = {"before": 7, "value": 500, "applied": 493, "state": "approved", "decider": "boss"}
    assert told.items() <= body.items()
    assert (body["adjustment"], body["replayed"]) == (row.number, False)
    assert body["decided_at"].endswith("Z")
    assert (row.before, row.after, row.reason, row.case) == (7, 500, "a stocktake", "T-1")
    assert (row.actor_name, row.approver_name, row.request_id) == ("clerk", "boss", "r-7")
    found = see(clerk, number).json()
    assert (found["state"], found["value"], found["last"]) == ("approved", None, None)
    assert Counter.objects.value(KEY) == 500


@pytest.mark.parametrize("body", [{"note": " They were no bots. "}, {}])
def test_a_rejection_changes_nothing(body: dict[str, str], clerk: Client, boss: Client) -> None:
    number = ask(clerk)["id"]
    told = decide(boss, number, "reject", body).json()
    assert (told["state"], told["decider"], told["adjustment"]) == ("rejected", "boss", None)
    assert told["note"] == see(clerk, number).json()["note"] == body.get("note", "").strip()
    assert (Counter.objects.value(KEY), CounterAdjustment.objects.count()) == (0, 0)


class TestFourEyes:
    @pytest.mark.parametrize("verb", ["approve", "reject"])
    def test_the_requester_does_not_decide(self, verb: str) -> None:
        both = come("ann", "adjust_counter", "approve_adjustment")
        number = ask(both)["id"]
        problem(decide(both, number, verb), 403, "own-request")
        # A new name is the same person.
        User.objects.update(username="ann of before")
        problem(decide(both, number, verb), 403, "own-request")
        assert (state_of(number), Counter.objects.value(KEY)) == ("waiting", 0)
        assert decide(come("bob", "approve_adjustment"), number, verb).status_code == 200

    @pytest.mark.parametrize("verb", ["approve", "reject"])
    def test_who_may_only_ask_does_not_decide(self, verb: str, clerk: Client) -> None:
        problem(decide(clerk, ask(clerk)["id"], verb), 403)

    def test_a_superuser_does_not_either(self) -> None:
        root = Client()
        root.force_login(User.objects.create_superuser("root"))
        problem(decide(root, ask(root)["id"]), 403, "own-request")

    def test_a_request_of_the_admin_is_one_of_the_api(self, boss: Client) -> None:
        row = approval.ask(named(KEY), by=500, reason="a stocktake", actor="somebody")
        assert see(boss, row.pk).json()["allow_below_floor"] is False
        assert decide(boss, row.pk).json()["requester"] == "somebody"


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_names_that_a_database_takes_for_one(verb: str, boss: Client) -> None:
    """Some compare texts without case. Those refuse it, which is no error of the server."""
    row = approval.ask(named(KEY), by=500, reason="a stocktake", actor="Boss")
    answer = decide(boss, row.pk, verb)
    if connection.vendor == "mysql":
        problem(answer, 400, "invalid")
        assert (state_of(row.pk), Counter.objects.value(KEY)) == ("waiting", 0)
    else:
        assert answer.status_code == 200


class TestTwice:
    @pytest.mark.parametrize("first", ["approve", "reject"])
    @pytest.mark.parametrize("second", ["approve", "reject"])
    def test_it_is_decided_once(self, first: str, second: str, clerk: Client, boss: Client) -> None:
        number = ask(clerk)["id"]
        assert decide(boss, number, first).status_code == 200
        value = Counter.objects.value(KEY)
        for who in (boss, come("bob", "approve_adjustment")):
            # Also who has looked at the value since.
            body = {"approve": {"expected": value}, "reject": {}}[second]
            told = problem(decide(who, number, second, body), 409, "request-decided")
            state = {"approve": "approved", "reject": "rejected"}[first]
            facts = {"request": number, "state": state, "decider": "boss"}
            assert facts.items() <= told.items()
        assert Counter.objects.value(KEY) == value == (500 if first == "approve" else 0)
        assert CounterAdjustment.objects.count() == (first == "approve")

    @pytest.mark.parametrize("verb", ["approve", "reject"])
    def test_with_a_key_it_is_answered_again(self, verb: str, clerk: Client, boss: Client) -> None:
        number = ask(clerk)["id"]
        first = decide(boss, number, verb, **header("one"))
        again = decide(boss, number, verb, **header("one"))
        assert (again.status_code, again["Idempotent-Replayed"]) == (200, "true")
        assert again.json() == {**first.json(), "replayed": True}
        other = {"approve": {"expected": 1}, "reject": {"note": "another"}}[verb]
        told = decide(boss, number, verb, other, **header("one"))
        problem(told, 422, "idempotency-key-reused")
        # The key of another one is another key.
        bob = come("bob", "approve_adjustment")
        problem(decide(bob, number, verb, **header("one")), 409, "request-decided")
        assert Counter.objects.value(KEY) == (500 if verb == "approve" else 0)

    def test_what_was_refused_may_be_sent_again(self, clerk: Client, boss: Client) -> None:
        number = ask(clerk)["id"]
        Counter.objects.increment(KEY)
        problem(decide(boss, number, **header("one")), 409, "value-changed")
        Counter.objects.decrement(KEY)
        assert decide(boss, number, **header("one")).json()["value"] == 500


class TestMeanwhile:
    def test_a_value_that_was_not_seen_is_not_approved(self, clerk: Client, boss: Client) -> None:
        number = ask(clerk, to=500)["id"]
        Counter.objects.increment(KEY, 5)
        told = problem(decide(boss, number), 409, "value-changed")
        assert (told["key"], told["expected"], told["current"]) == (KEY, 0, 5)
        # Neither is a new value with the last adjustment.
        body = {"expected": 0, "last": 0}
        problem(decide(boss, number, body=body), 409, "value-changed")
        assert (state_of(number), Counter.objects.value(KEY)) == ("waiting", 5)
        seen = see(boss, number).json()["value"]
        assert decide(boss, number, body={"expected": seen}).json()["before"] == 5

    def test_a_change_comes_on_top_of_what_was_counted(self, clerk: Client, boss: Client) -> None:
        number = ask(clerk)["id"]
        found = see(boss, number).json()
        body = {"expected": found["value"], "last": found["last"]}
        Counter.objects.increment(KEY, 5)
        assert decide(boss, number, body=body).json()["value"] == 505

    def test_but_not_of_what_was_adjusted(self, clerk: Client, boss: Client) -> None:
        number = ask(clerk)["id"]
        found = see(boss, number).json()
        clerk.do("adjust", KEY, {"by": 5, "reason": "a stocktake"})
        body = {"expected": found["value"], "last": found["last"]}
        problem(decide(boss, number, body=body), 409, "value-changed")
        assert Counter.objects.value(KEY) == 5

    def test_a_bound_holds(self, clerk: Client, boss: Client) -> None:
        with override_counters(stock={**POLICY, "FLOOR": 0}):
            Counter.objects.increment(KEY, 500)
            number = ask(clerk, by=-500)["id"]
            Counter.objects.decrement(KEY)
            told = problem(decide(boss, number, body={"expected": 499}), 409, "insufficient-count")
            assert (told["available"], state_of(number)) == (499, "waiting")

    def test_who_approves_is_told_that_the_floor_does_not_hold(self, boss: Client) -> None:
        asked: dict[str, Any] = {**ORDER, "by": -500, "allow_below_floor": True}
        with override_counters(stock={**POLICY, "FLOOR": 0}):
            number = approval.ask(named(KEY), actor="somebody", **asked).pk
            assert see(boss, number).json()["allow_below_floor"] is True
            assert listed(boss).json()["results"][0]["allow_below_floor"] is True
            assert decide(boss, number).json()["value"] == -500

    def test_without_redis_it_can_be_rejected(self, clerk: Client, boss: Client) -> None:
        number = ask(clerk)["id"]
        with override_counters(stock=DEAD):
            problem(see(boss, number), 503, "unavailable")
            problem(decide(boss, number), 503, "unavailable")
            assert state_of(number) == "waiting"
            assert decide(boss, number, "reject").status_code == 200


def test_a_rejection_makes_no_counter(boss: Client) -> None:
    """So it is not refused where no more of them may be made."""
    row = approval.ask(named("stock:new"), by=500, reason="a stocktake", actor="somebody")
    with override_counters(stock={**POLICY, "API": {**POLICY["API"], "names": "old"}}):
        problem(decide(boss, row.pk), 404)
        assert decide(boss, row.pk, "reject").status_code == 200
    assert not Counter.objects.filter(key="stock:new").exists()


@pytest.mark.parametrize("note", ["\u202edoog", "a\x1b[2J", "\u3164"])
def test_a_note_shows_as_it_is(note: str, clerk: Client, boss: Client) -> None:
    number = ask(clerk)["id"]
    problem(decide(boss, number, "reject", {"note": note}), 400, "invalid")
    assert state_of(number) == "waiting"


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("approve", {}, "expected"),
        ("approve", {"expected": "0"}, "expected"),
        ("approve", {"expected": 2**63}, "expected"),
        ("approve", {"expected": 0, "last": "0"}, "last"),
        ("approve", {"expected": 0, "approver": "ann"}, "approver"),
        ("reject", {"note": "x" * 1001}, "note"),
        ("reject", {"note": "a\0b"}, "note"),
        ("reject", {"note": None}, "note"),
        ("reject", {"reason": "no"}, "reason"),
    ],
)
def test_what_is_no_decision(
    verb: str, body: dict[str, Any], field: str, clerk: Client, boss: Client
) -> None:
    number = ask(clerk)["id"]
    told = problem(decide(boss, number, verb, body), 400, "invalid")
    assert {one["field"] for one in told["errors"]} == {field}
    assert state_of(number) == "waiting"


def test_other_methods_and_addresses(clerk: Client, boss: Client) -> None:
    number = ask(clerk)["id"]
    address = f"{API}/requests/{number}"
    for answer in (
        *(boss.get(f"{address}/{verb}") for verb in ("approve", "reject")),
        *(boss.generic(method, address) for method in ("POST", "PUT", "PATCH", "DELETE")),
    ):
        problem(answer, 405)
    for path in ("/", "/approve/", "/reject/", "/refuse"):
        assert boss.post(f"{address}{path}", {"expected": 0}).status_code in (404, 405)
    assert state_of(number) == "waiting"


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("keyed", [False, True])
def test_of_many_who_decide_at_once_one_does(keyed: bool) -> None:
    number = ask(come("clerk"))["id"]
    crowd = [come(f"person {one}", "approve_adjustment") for one in range(12)]
    decides = {"approve": {"expected": 0, "last": 0}, "reject": {}}

    def work(one: int) -> tuple[int, str, str]:
        verb = "reject" if one % 4 == 3 else "approve"
        key = header("one") if keyed else {}
        answer = decide(crowd[one], number, verb, decides[verb], **key)
        return answer.status_code, answer.json().get("type", ""), answer.json().get("state", "")

    answers = Threads(len(crowd)).run(work)
    done = [one for one in answers if one[0] == 200]
    late = [one for one in answers if one[0] != 200]
    assert {one[:2] for one in late} == {(409, "urn:django-counters:request-decided")}
    ((_, _, state),) = done
    assert {one[2] for one in late} == {state} == {state_of(number)}
    made = CounterAdjustment.objects.count()
    assert (made, Counter.objects.value(KEY)) == ((1, 500) if state == "approved" else (0, 0))


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("keyed", [False, True])
def test_a_commit_that_is_not_answered(keyed: bool) -> None:
    """It is told that nobody knows. The same again, with its key, is done once."""
    clerk, boss = come("clerk"), come("boss")
    key = header("one") if keyed else {}
    with lost_at_commit(AdjustmentRequest):
        problem(clerk.do("adjust", KEY, ORDER, **key), 504, "outcome-unknown")
    number = ask(clerk, **key)["id"]
    for verb in ("reject", "approve"):
        with lost_at_commit(AdjustmentRequest):
            problem(decide(boss, number, verb, **key), 504, "outcome-unknown")
    assert decide(boss, number, **key).json()["value"] == 500
    assert AdjustmentRequest.objects.count() == CounterAdjustment.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("verb", ["adjust", "approve", "reject"])
def test_nothing_is_read_behind_the_commit(
    verb: str, keyed: bool, clerk: Client, boss: Client
) -> None:
    """If that failed, the answer to what is committed would be that nothing was changed."""
    key = header("one") if keyed else {}
    number = ask(clerk)["id"]
    with CaptureQueriesContext(connection) as queries:
        if verb == "adjust":
            answer = clerk.do("adjust", KEY, ORDER, **key)
        else:
            answer = decide(boss, number, verb, **key)
    assert answer.status_code == {"adjust": 202}.get(verb, 200)
    assert queries[-1]["sql"] == "COMMIT"


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_one_key_that_comes_many_times_at_once_asks_and_approves_once() -> None:
    clerk, boss = come("clerk"), come("boss")
    crowd = Threads(8)
    asked = crowd.run(lambda _: clerk.do("adjust", KEY, ORDER, **header("one")).status_code)
    assert set(asked) <= {202, 409}
    row = AdjustmentRequest.objects.get()
    told = crowd.run(lambda _: decide(boss, row.pk, **header("one")).status_code)
    assert set(told) <= {200, 409}
    again = decide(boss, row.pk, **header("one"))
    assert (again["Idempotent-Replayed"], again.json()["value"]) == ("true", 500)
    assert CounterAdjustment.objects.count() == 1
