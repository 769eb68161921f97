"""Who may do what, and that what is forbidden looks like what there is not."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import Model
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.rest.targets import OfRecord, Target
from django_counters.testing import override_counters
from tests.rest.conftest import OPEN, ROLES, As, Client, problem
from tests.testapp.models import Post

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
READS, CHANGES = ("read", "exact", "history", "bulk/read"), ("increment", "bulk/increment")
ENDPOINTS = (*READS, *CHANGES, "decrement", "adjust")
# What each role is answered, by namespace, in the order of ROLES:
# anonymous, user, staff, permitted, superuser. A bulk read says whether the value is in it.
TABLE = {
    # anybody reads, users increment, the staff decrements, permissions adjust
    "likes": {
        **dict.fromkeys(READS, (200, 200, 200, 200, 200)),
        **dict.fromkeys(CHANGES, (401, 200, 200, 200, 200)),
        "decrement": (401, 403, 200, 403, 200),
        "adjust": (401, 403, 403, 200, 200),
    },
    # everything for the staff
    "inside": {
        **dict.fromkeys(READS, (401, 404, 200, 404, 200)),
        **dict.fromkeys(CHANGES, (401, 404, 200, 404, 200)),
        "decrement": (401, 404, 200, 404, 200),
        "adjust": (401, 404, 200, 404, 200),
    },
    # everything by permission
    "guarded": {
        **dict.fromkeys(READS, (401, 404, 404, 200, 200)),
        **dict.fromkeys(CHANGES, (401, 404, 404, 200, 200)),
        "decrement": (401, 404, 404, 200, 200),
        "adjust": (401, 404, 404, 200, 200),
    },
    # declared without an API, and not declared at all
    "secret": dict.fromkeys(ENDPOINTS, (401, 404, 404, 404, 404)),
    "nowhere": dict.fromkeys(ENDPOINTS, (401, 404, 404, 404, 404)),
}
ORDER = {"to": 5, "reason": "recount"}


def ask(client: Client, endpoint: str, key: str) -> Any:
    """Use one endpoint for one counter."""
    if endpoint == "bulk/read":
        return client.bulk("read", {"keys": [key]})
    if endpoint == "bulk/increment":
        return client.bulk("increment", {"counters": [{"key": key}]})
    if endpoint in READS:
        return client.at(key, endpoint.removeprefix("read"))
    return client.do(endpoint, key, ORDER if endpoint == "adjust" else None)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("namespace", TABLE)
def test_every_role_at_every_endpoint(namespace: str, role: str, endpoint: str, as_: As) -> None:
    key = f"{namespace}:a"
    expected = TABLE[namespace][endpoint][ROLES.index(role)]
    answer = ask(as_(role), endpoint, key)
    if endpoint == "bulk/read":
        assert answer.status_code == 200
        assert answer.json()["unknown"] == ([] if expected == 200 else [key])
    elif expected == 200:
        assert answer.status_code == 200, answer.content
    else:
        problem(answer, expected)
        assert not Counter.objects.exists()
    if expected == 200 and endpoint not in READS:
        assert Counter.objects.get(key=key).value in (1, -1, 5)


@pytest.mark.parametrize("rule", ["authenticated", "staff", "permission", None])
@pytest.mark.parametrize("action", ["read", "increment", "decrement", "adjust"])
def test_each_action_has_its_own_rule(rule: str | None, action: str, as_: As) -> None:
    passes = {
        "authenticated": {"user", "staff", "permitted", "superuser"},
        "staff": {"staff", "superuser"},
        "permission": {"permitted", "superuser"},
        None: set[str](),
    }[rule]
    with override_counters(likes={"API": {action: rule}}):
        for role in ROLES:
            client = as_(role)
            answers = {each: ask(client, each, "likes:a").status_code == 200 for each in SINGLE}
            allowed = {each for each, answered in answers.items() if answered}
            mine = {"read", "exact", "history"} if action == "read" else {action}
            assert allowed == (mine if role in passes else set())


SINGLE = ("read", "exact", "history", "increment", "decrement", "adjust")


@pytest.mark.parametrize("role", ["anonymous", "user"])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_unknown_and_forbidden_are_the_same_bytes(role: str, endpoint: str, as_: As) -> None:
    Counter.objects.increment("guarded:a")
    expose(Post, "likes", read="staff", increment="staff", decrement="staff", adjust="staff")
    record = f"testapp.Post.likes:{Post.objects.create().pk}"
    keys = ["nowhere:a", "guarded:a", "guarded:b", "secret:a", record, "testapp.Post.likes:0"]
    keys += ["testapp.Post.views:1", "plain", "default:a", "nowhere:" + "x" * 180, "no%20key"]
    client = as_(role)
    seen = {_bytes(ask(client, endpoint, key), key) for key in keys}
    assert len(seen) == 1, seen


def _bytes(answer: Any, key: str) -> tuple[Any, ...]:
    headers = {name: value for name, value in answer.headers.items() if name != "Date"}
    # A bulk read lists what it was asked for, also how long that is.
    content = answer.content.replace(key.encode(), b"KEY")
    if key.encode() in answer.content:
        headers.pop("Content-Length", None)
    return answer.status_code, tuple(sorted(headers.items())), content


@pytest.mark.parametrize("endpoint", SINGLE)
def test_a_record_that_is_hidden_is_one_that_there_is_not(endpoint: str, as_: As) -> None:
    hidden = Post.objects.create(title="draft")
    shown = Post.objects.create(title="published")
    expose(Post, "likes", **OPEN, records=Post.objects.filter(title="published"))
    root = as_("superuser")
    there_is_not, not_shown, there_is = (
        ask(root, endpoint, f"testapp.Post.likes:{pk}") for pk in (0, hidden.pk, shown.pk)
    )
    problem(not_shown, 404)
    assert _bytes(there_is_not, "") == _bytes(not_shown, "")
    assert there_is.status_code == (404 if endpoint == "history" else 200)
    hidden.refresh_from_db()
    assert hidden.likes == 0


def test_a_record_is_asked_for_anew(as_: As) -> None:
    post = Post.objects.create(title="draft")
    expose(Post, "likes", **OPEN, records=Post.objects.filter(title="published"))
    key = f"testapp.Post.likes:{post.pk}"
    problem(as_("user").do("increment", key), 404)
    Post.objects.update(title="published")
    assert as_("user").do("increment", key).status_code == 200
    Post.objects.update(title="draft")
    problem(as_("user").do("increment", key), 404)


class OnTuesdays(BasePermission):
    """Admits who says so."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return request.headers.get("X-Day") == "tuesday"


class OwnTitle(BasePermission):
    """Admits a user to the record that has their name."""

    def has_object_permission(self, request: Request, view: APIView, obj: Target) -> bool:
        record: Model | None = obj.record if isinstance(obj, OfRecord) else None
        return isinstance(record, Post) and record.title == request.user.get_username()


class TestPermissionClasses:
    HERE = "tests.rest.test_roles"

    @pytest.mark.parametrize("endpoint", SINGLE)
    def test_one_that_asks_the_request(self, endpoint: str, as_: As) -> None:
        with override_counters(likes={"API": dict.fromkeys(OPEN, f"{self.HERE}.OnTuesdays")}):
            user = as_("user")
            problem(ask(user, endpoint, "likes:a"), 404)
            assert not Counter.objects.exists()
            user.credentials(HTTP_X_DAY="tuesday")
            assert ask(user, endpoint, "likes:a").status_code == 200

    def test_one_that_asks_the_record(self, as_: As) -> None:
        rule = f"{self.HERE}.OwnTitle"
        expose(Post, "likes", read="authenticated", increment=rule)
        user = as_("user")
        mine = Post.objects.create(title="user0")
        other = Post.objects.create(title="somebody")
        first, second = (f"testapp.Post.likes:{post.pk}" for post in (mine, other))
        assert user.do("increment", first).json()["value"] == 1
        problem(user.do("increment", second), 404)
        # One that is forbidden stops all.
        both = {"counters": [{"key": first}, {"key": second}]}
        problem(user.bulk("increment", both), 404)
        assert user.at(first, "exact").json()["value"] == 1
        assert user.at(second, "exact").json()["value"] == 0
        assert user.bulk("increment", {"counters": [{"key": first}]}).status_code == 200

    def test_one_that_asks_the_record_hides_it_from_a_bulk_read(self, as_: As) -> None:
        expose(Post, "likes", read=f"{self.HERE}.OwnTitle")
        user = as_("user")
        keys = [
            f"testapp.Post.likes:{Post.objects.create(title=title).pk}" for title in ("user0", "x")
        ]
        body = user.bulk("read", {"keys": keys}).json()
        assert [each["key"] for each in body["counters"]] == keys[:1]
        assert body["unknown"] == keys[1:]


@pytest.mark.parametrize(
    ("role", "forbidden", "status"),
    [
        ("user", "guarded:a", 404),
        ("user", "nowhere:a", 404),
        ("permitted", "inside:a", 404),
        ("anonymous", "likes:a", 401),
    ],
)
def test_one_that_is_forbidden_stops_a_bulk(
    role: str, forbidden: str, status: int, as_: As
) -> None:
    items = [{"key": key} for key in ("likes:b", forbidden, "likes:c")]
    for order in (items, items[::-1], items[1:]):
        problem(as_(role).bulk("increment", {"counters": order}), status)
    assert not Counter.objects.exists()


def test_a_token_that_is_none_is_told_so_in_words(as_: As) -> None:
    for client in (as_("anonymous"), as_("user")):
        answer = client.at("likes:a", HTTP_AUTHORIZATION="Bearer nonsense")
        body = problem(answer, 401)
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert "ErrorDetail" not in body["detail"]
