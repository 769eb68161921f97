"""Holds over HTTP: under the Idempotency-Key, by who may take from the counter."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from rest_framework.authentication import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.views import APIView

from django_counters.contrib import holds
from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.holds.conftest import pass_time
from tests.rest.conftest import (
    ALL_NAMED,
    API_TESTS,
    As,
    Client,
    as_,
    fields,
    isolated,
    keys,
    namespaces,
    problem,
)
from tests.testapp.models import Product

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


def test_tokens_without_a_user_are_different_clients(namespaces: None) -> None:
    """They are behind one address, and choose the same words."""
    rule = dict.fromkeys(ALL_NAMED, "django_counters.rest.permissions.HasScope")
    with override_counters(stock={"FLOOR": 0, "API": rule}):
        Counter.objects.increment("stock:lamp", 10)
        first, second = Client(), Client()
        for client, name in ((first, "a"), (second, "b")):
            token: Any = {"scope": "*:*", "sub": name}
            client.force_authenticate(user=None, token=token)
        assert first.do("hold", "stock:lamp", **BASKET).json()["available"] == 9
        for action in "commit", "release", "extend":
            body = {"token": "basket"}
            problem(second.do(action, "stock:lamp", body, **BASKET), 404, "not-found")
        assert second.do("hold", "stock:lamp", **BASKET).json()["available"] == 8
        for client in (first, second):
            assert not client.do("increment", "stock:lamp", **BASKET).json()["replayed"]


class ByToken(TokenAuthentication):
    """REST framework's own header, with tokens of users that no table keeps."""

    users: ClassVar[dict[str, User]] = {}

    def authenticate_credentials(self, key: str) -> tuple[User, str]:
        """Find the user of a token."""
        if key not in self.users:
            raise AuthenticationFailed
        return self.users[key], key


def test_tokens_of_users_are_different_clients(
    namespaces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new token of the same user is the same client."""
    monkeypatch.setattr(APIView, "authentication_classes", [ByToken])
    rule = dict.fromkeys(ALL_NAMED, "authenticated")
    ann, bob = (User.objects.create_user(name) for name in ("ann", "bob"))
    tokens = {"first": ann, "second": bob, "renewed": ann}
    monkeypatch.setattr(ByToken, "users", tokens)
    first, second, renewed = (Client() for _ in tokens)
    for client, key in zip((first, second, renewed), tokens, strict=True):
        client.credentials(HTTP_AUTHORIZATION=f"Token {key}")
    with override_counters(stock={"FLOOR": 0, "API": rule}):
        problem(Client().do("increment", "stock:lamp"), 401)
        for client, made in ((first, 10), (second, 20)):
            answer = client.do("increment", "stock:lamp", {"by": 10}, **BASKET).json()
            assert (answer["value"], answer["replayed"]) == (made, False)
        assert first.do("hold", "stock:lamp", **BASKET).json()["available"] == 19
        for action in "commit", "release", "extend":
            problem(second.do(action, "stock:lamp", {"token": "basket"}), 404, "not-found")
        assert second.do("hold", "stock:lamp", **BASKET).json()["available"] == 18
        del tokens["first"]
        problem(first.do("release", "stock:lamp", {"token": "basket"}), 401)
        again = renewed.do("increment", "stock:lamp", {"by": 10}, **BASKET).json()
        assert (again["value"], again["replayed"]) == (10, True)
        released = renewed.do("release", "stock:lamp", {"token": "basket"}).json()
        assert released["state"] == "released"
        assert Counter.objects.value("stock:lamp") == 19


def test_a_hold_is_ended_at_its_own_counter(staff: Client, key: str) -> None:
    staff.do("hold", key, **BASKET)
    staff.do("increment", "stock:other")
    for action in "commit", "release", "extend":
        problem(staff.do(action, "stock:other", {"token": "basket"}), 404, "not-found")


def test_who_may_hold_may_not_sell(staff: Client, key: str, as_: As) -> None:
    customer = as_("user")
    held = customer.do("hold", key, {"quantity": 2}, **BASKET).json()
    for token in ("basket", held["id"]):
        problem(customer.do("commit", key, {"token": token}), 403)
    assert customer.do("extend", key, {"token": "basket"}).status_code == 200
    # The id is for selling: with it nobody gives back what is held by others.
    problem(staff.do("release", key, {"token": held["id"]}), 404, "not-found")
    sold = staff.do("commit", key, {"token": held["id"]}).json()
    assert (sold["state"], sold["sold"], sold["id"]) == ("committed", 2, held["id"])


@pytest.mark.parametrize("action", ["hold", "commit", "release", "extend"])
def test_it_asks_for_a_right(action: str, as_: As, key: str) -> None:
    body = {} if action == "hold" else {"token": "basket"}
    as_("superuser").do("increment", key)
    problem(as_("anonymous").do(action, key, body, **BASKET), 401)
    expose(Product, "stock", read="anyone")
    with override_counters(stock={"FLOOR": 0, "API": {"read": "anyone", "decrement": "staff"}}):
        # The right to take is that to sell, and not that to hold.
        answer = as_("staff").do(action, "stock:lamp", body, **BASKET)
        assert answer.status_code == (404 if action == "commit" else 403)


def test_a_customer_holds_no_more_than_a_part(staff: Client, as_: As) -> None:
    with override_counters(stock={"FLOOR": 0, "HELD_PER_ACTOR": 3, "API": ALL_NAMED}):
        staff.do("increment", "stock:chair", {"by": 10})
        user = User.objects.create_user("ann")
        holds.hold("stock:chair", 2, who=user)
        customer = Client()
        customer.force_authenticate(user)
        answer = customer.do("hold", "stock:chair", {"quantity": 2}, **BASKET)
        body = problem(answer, 409, "hold-limit")
        assert (body["held"], body["limit"]) == (2, 3)
        assert customer.do("hold", "stock:chair", **BASKET).json()["available"] == 7
        assert as_("user").do("hold", "stock:chair", {"quantity": 3}, **BASKET).status_code == 200


WRONG: list[tuple[str, Any]] = [
    ("hold", {"quantity": 0}),
    ("hold", {"minutes": 0}),
    ("hold", {"minutes": 43201}),
    ("hold", {"hours": 1}),
    ("hold", {"note": "\x1b[2J"}),
    ("hold", {"note": "\u202ebasket"}),
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
