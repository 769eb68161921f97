"""Holds over HTTP: under the Idempotency-Key, by who may take from the counter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.holds.conftest import pass_time
from tests.rest.conftest import API_TESTS, As, Client, problem

pytestmark = API_TESTS
KEYS = ["stock:lamp", "likes:lamp", "exact field"]
BASKET = {"HTTP_IDEMPOTENCY_KEY": "basket"}


@pytest.fixture(params=KEYS)
def key(request: pytest.FixtureRequest, keys: dict[str, str]) -> str:
    name: str = request.param
    return keys.get(name, name)


@pytest.fixture
def staff(as_: As, key: str) -> Client:
    """Somebody who may take from the counter, which has ten."""
    client = as_("superuser")
    client.do("increment", key, {"by": 10})
    return client


def value(client: Client, key: str) -> int:
    found: int = client.at(key, "exact").json()["value"]
    return found


def test_hold_and_commit(staff: Client, key: str) -> None:
    answer = staff.do("hold", key, {"quantity": 4, "note": "a basket"}, **BASKET)
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    body = answer.json()
    assert (body["key"], body["token"], body["quantity"], body["state"]) == (
        key,
        "basket",
        4,
        "held",
    )
    assert (body["available"], body["replayed"], value(staff, key)) == (6, False, 6)
    again = staff.do("hold", key, {"quantity": 4, "note": "a basket"}, **BASKET)
    assert (again.json()["replayed"], again["Idempotent-Replayed"]) == (True, "true")
    assert again.json()["expires_at"] == body["expires_at"]
    problem(staff.do("hold", key, {"quantity": 5}, **BASKET), 422, "idempotency-key-reused")
    sold = staff.do("commit", key, {"token": "basket", "quantity": 1}).json()
    assert (sold["state"], sold["sold"], sold["replayed"]) == ("committed", 1, False)
    assert staff.do("commit", key, {"token": "basket", "quantity": 1}).json()["replayed"]
    body = problem(staff.do("release", key, {"token": "basket"}), 409, "hold-ended")
    assert (body["state"], value(staff, key)) == ("committed", 9)


def test_release_and_extend(staff: Client, key: str) -> None:
    held = staff.do("hold", key, {"quantity": 4}, **BASKET).json()
    longer = staff.do("extend", key, {"token": "basket", "minutes": 60}).json()
    assert longer["expires_at"] > held["expires_at"]
    for replayed in False, True:
        body = staff.do("release", key, {"token": "basket"}).json()
        assert (body["state"], body["replayed"]) == ("released", replayed)
    assert value(staff, key) == 10


def test_what_is_over_is_not_sold(staff: Client, key: str) -> None:
    staff.do("hold", key, **BASKET)
    pass_time()
    problem(staff.do("commit", key, {"token": "basket"}), 409, "hold-expired")


def test_nobody_ends_the_hold_of_another_one(staff: Client, key: str, as_: As) -> None:
    staff.do("hold", key, {"quantity": 4}, **BASKET)
    other = as_("superuser")
    for action in "commit", "release", "extend":
        problem(other.do(action, key, {"token": "basket"}), 404, "not-found")
    # The same word is another hold of somebody else.
    assert other.do("hold", key, {"quantity": 6}, **BASKET).json()["available"] == 0
    problem(other.do("hold", key, HTTP_IDEMPOTENCY_KEY="more"), 409, "insufficient-count")


def test_a_hold_is_ended_at_its_own_counter(staff: Client, key: str) -> None:
    staff.do("hold", key, **BASKET)
    staff.do("increment", "stock:other")
    for action in "commit", "release", "extend":
        problem(staff.do(action, "stock:other", {"token": "basket"}), 404, "not-found")


@pytest.mark.parametrize("action", ["hold", "commit", "release", "extend"])
def test_it_asks_for_the_right_to_take(action: str, as_: As, key: str) -> None:
    body = {} if action == "hold" else {"token": "basket"}
    as_("superuser").do("increment", key)
    assert as_("user").do(action, key, body, **BASKET).status_code == 403
    assert as_("anonymous").do(action, key, body, **BASKET).status_code == 401


WRONG: list[tuple[str, Any]] = [
    ("hold", {"quantity": 0}),
    ("hold", {"minutes": 0}),
    ("hold", {"minutes": 43201}),
    ("hold", {"hours": 1}),
    ("commit", {}),
    ("commit", {"token": ""}),
    ("commit", {"token": "basket", "quantity": -1}),
    ("extend", {"token": "basket", "minutes": 0.5}),
]


@pytest.mark.parametrize(("action", "body"), WRONG)
def test_wrong_bodies(action: str, body: Any, as_: As) -> None:
    client = as_("superuser")
    client.do("increment", "stock:lamp")
    problem(client.do(action, "stock:lamp", body, **BASKET), 400, "invalid")


def test_a_hold_needs_a_name_and_a_counter_that_can(as_: As) -> None:
    client = as_("superuser")
    client.do("increment", "stock:lamp")
    problem(client.do("hold", "stock:lamp"), 400, "invalid")
    problem(client.do("hold", "sums:a", **BASKET), 409, "unsupported-hold")
