"""Scopes: what a token may do with which counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework_simplejwt.tokens import AccessToken

from django_counters.models import Counter
from django_counters.rest.permissions import HasScope
from django_counters.testing import override_counters
from tests.rest.conftest import ALL_NAMED, API, API_TESTS, As, Client, problem

pytestmark = API_TESTS
HERE = __name__
BY_SCOPE = "django_counters.rest.permissions.HasScope"
ASKED: dict[str, tuple[str, dict[str, Any] | None]] = {
    "read": ("read", None),
    "history": ("history", None),
    "increment": ("increment", {}),
    "decrement": ("decrement", {}),
}


@pytest.fixture(autouse=True)
def ruled(namespaces: None) -> Iterator[None]:
    with override_counters(likes={"UNIQUE": ["day"], "API": dict.fromkeys(ALL_NAMED, BY_SCOPE)}):
        Counter.objects.increment_many({f"likes:{name}": 1 for name in ("a", "b", "ba", "c")})
        yield


def holder(scopes: Any) -> Client:
    """Who comes with a JSON web token that has these scopes."""
    token = AccessToken.for_user(User.objects.create_user(f"user{User.objects.count()}"))
    if scopes is not None:
        token["scope"] = scopes
    client = Client()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def allowed(client: Client, key: str = "likes:a") -> set[str]:
    """What the client may do; what it may not is refused alike."""
    found = set()
    for action, (name, body) in ASKED.items():
        path = "" if name == "read" else name
        answer = client.at(key, path) if body is None else client.do(name, key, body)
        assert answer.status_code in (200, 403, 404), answer.content
        found |= {action} if answer.status_code == 200 else set()
    return found


@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        ("read:likes:a", {"read"}),
        ("increment:likes:a decrement:likes:a", {"increment", "decrement"}),
        (["increment:likes:*", "history:likes:a"], {"increment", "history"}),
        ("*:likes:a", set(ASKED)),
        ("openid *:*", set(ASKED)),
        *(
            (none, set())
            for none in (
                *(None, "", [], "read", "*", "read:", "read:likes:", "read:likes", "Read:likes:a"),
                *("read:likes:b", "read:*a", "read:likes:A", "read:votes:*", "adjust:likes:a"),
                *("read:likes:a,increment:likes:a", 7, [7], {"read:likes:a": 1}),
            )
        ),
    ],
)
def test_a_scope_is_an_action_and_a_counter(scopes: Any, may: set[str]) -> None:
    assert allowed(holder(scopes)) == may


def test_a_star_stands_for_how_a_key_goes_on() -> None:
    client = holder("read:likes:b*")
    found = {key: client.at(key).status_code for key in ("likes:a", "likes:b", "likes:ba")}
    assert found == {"likes:a": 404, "likes:b": 200, "likes:ba": 200}
    body = client.bulk("read", {"keys": ["likes:a", "likes:ba", "likes:b"]}).json()
    assert [one["key"] for one in body["counters"]] == ["likes:ba", "likes:b"]
    lister = holder("list:likes:b*")
    listed = lister.get(f"{API}/counters", {"namespace": "likes", "prefix": "b"}).json()["results"]
    assert [one["key"] for one in listed] == ["likes:b", "likes:ba"]
    for who, prefix, status in ((lister, "", 404), (lister, "a", 404), (client, "b", 403)):
        problem(who.get(f"{API}/counters", {"namespace": "likes", "prefix": prefix}), status)


@pytest.mark.parametrize("action", ["list", "*"])
def test_a_right_for_one_name_lists_none_that_begins_like_it(action: str) -> None:
    lister = holder(f"{action}:likes:b")
    for prefix in ("b", "ba", ""):
        answer = lister.get(f"{API}/counters", {"namespace": "likes", "prefix": prefix})
        assert answer.status_code in (403, 404)


def test_who_may_read_a_counter_learns_that_it_may_not_be_changed() -> None:
    for may_read, status in (("likes:a", 403), ("likes:c", 404)):
        client = holder(f"increment:likes:b read:{may_read}")
        problem(client.do("increment", "likes:a"), status)


def test_scopes_are_asked_once_for_all_counters_of_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Request] = []
    scopes_of = HasScope.scopes_of

    def counted(self: HasScope, request: Request) -> Any:
        asked.append(request)
        return scopes_of(self, request)

    monkeypatch.setattr(HasScope, "scopes_of", counted)
    answer = holder("read:likes:*").bulk("read", {"keys": ["likes:a", "likes:b", "likes:c"]})
    assert len(answer.json()["counters"]) == 3
    assert len(asked) == 1


def test_a_bulk_needs_all_of_them() -> None:
    client = holder("increment:likes:b*")
    both = {"counters": [{"key": "likes:b"}, {"key": "likes:a"}]}
    problem(client.bulk("increment", both), 404)
    assert Counter.objects.values_of(["likes:a", "likes:b"]) == {"likes:a": 1, "likes:b": 1}
    both["counters"][1]["key"] = "likes:ba"
    assert client.bulk("increment", both).status_code == 200


def test_one_action_is_not_taken_for_another() -> None:
    """Who may adjust may name others; who may increment may not."""
    body = {"who": "somebody"}
    problem(holder("increment:likes:*").do("increment", "likes:a", body), 403)
    both = holder("increment:likes:* adjust:likes:*")
    assert both.do("increment", "likes:a", body).status_code == 200
    answer = both.do("adjust", "likes:a", {"to": 5, "reason": "a stocktake"})
    assert answer.json()["value"] == 5


def test_a_token_without_a_user_and_users_without_a_token(as_: As) -> None:
    client = Client()
    # As the tokens of django-oauth-toolkit have them.
    token: Any = SimpleNamespace(scope="increment:likes:a")
    client.force_authenticate(user=None, token=token)
    assert allowed(client) == {"increment"}
    assert allowed(as_("superuser")) == set()
    problem(as_("anonymous").do("increment", "likes:a"), 401)


class OfStaff(HasScope, IsAuthenticated):
    """The staff may do all; others what their token says."""

    def scopes_of(self, request: Request) -> Iterable[str]:
        return ["*:*"] if request.user.is_staff else super().scopes_of(request)


def test_a_project_says_where_scopes_are(as_: As) -> None:
    with override_counters(likes={"API": dict.fromkeys(ALL_NAMED, f"{HERE}.OfStaff")}):
        assert allowed(as_("staff")) == set(ASKED)
        assert allowed(as_("user")) == set()
        assert allowed(holder("read:likes:*")) == {"read"}
        client = Client()
        unknown: Any = SimpleNamespace(scope="*:*")
        client.force_authenticate(user=None, token=unknown)
        # What the other class asks for is asked for, too.
        assert allowed(client) == set()
