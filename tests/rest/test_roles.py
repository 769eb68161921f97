"""Who may do what, and that what is forbidden looks like what there is not."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models import Model, QuerySet
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from django_counters.models import AdjustmentRequest, Counter
from django_counters.rest import expose
from django_counters.rest.targets import OfRecord, Target
from django_counters.testing import override_counters
from tests.rest.conftest import ALL, API, API_TESTS, OPEN, ROLES, As, Client, problem
from tests.testapp.models import Post

pytestmark = API_TESTS
READS, CHANGES = ("read", "exact", "history", "bulk/read"), ("increment", "bulk/increment")
ENDPOINTS = (*READS, *CHANGES, "decrement", "adjust", "approve")
SINGLE = ("read", "exact", "history", "increment", "decrement", "hold", "adjust", "approve")
STAFF, PERMITTED = (401, 404, 200, 404, 200), (401, 404, 404, 200, 200)
# A bulk read answers everybody: it leaves out what it does not show.
HIDDEN = {**dict.fromkeys(ENDPOINTS, (401, 404, 404, 404, 404)), "bulk/read": (404,) * 5}
# What each role is answered, by namespace, in the order of ROLES:
# anonymous, user, staff, permitted, superuser.
TABLE = {
    # anybody reads, users increment, the staff decrements, permissions adjust and approve
    "likes": {
        **dict.fromkeys(READS, (200, 200, 200, 200, 200)),
        **dict.fromkeys(CHANGES, (401, 200, 200, 200, 200)),
        "decrement": (401, 403, 200, 403, 200),
        "adjust": (401, 403, 403, 200, 200),
        # Who may read a counter does not learn what was asked for.
        "approve": (401, 404, 404, 200, 200),
    },
    # everything for the staff
    "inside": {**dict.fromkeys(ENDPOINTS, STAFF), "bulk/read": (404, *STAFF[1:])},
    # everything by permission
    "guarded": {**dict.fromkeys(ENDPOINTS, PERMITTED), "bulk/read": (404, *PERMITTED[1:])},
    # declared without an API, and not declared at all
    "secret": HIDDEN,
    "nowhere": HIDDEN,
}
ORDER = {"to": 5, "reason": "counted again"}


def ask(client: Client, endpoint: str, key: str) -> Any:
    """Use one endpoint for one counter."""
    if endpoint == "bulk/read":
        return client.bulk("read", {"keys": [key]})
    if endpoint == "bulk/increment":
        return client.bulk("increment", {"counters": [{"key": key}]})
    if endpoint in READS:
        return client.at(key, endpoint.removeprefix("read"))
    if endpoint == "approve":
        return client.post(f"{API}/requests/{asked(key).pk}/approve", {"expected": present(key)})
    header = {"HTTP_IDEMPOTENCY_KEY": "basket"} if endpoint == "hold" else {}
    return client.do(endpoint, key, ORDER if endpoint == "adjust" else None, **header)


def asked(key: str) -> AdjustmentRequest:
    """A request of somebody else, whether or not there is such a counter."""
    label, _, name = key.partition(":")
    where = {"field": label, "key": name} if label.startswith("testapp.") else {"key": key}
    told = {"expected": 0, "reason": "counted again", "requester_name": "somebody"}
    return AdjustmentRequest._base_manager.create(**where, **told, by=5)


def present(key: str) -> int:
    """The value of a counter without pending parts."""
    rows: QuerySet[Any] = Counter.objects.filter(key=key).values_list("value", flat=True)
    if key.startswith("testapp.Post.likes:"):
        rows = Post.objects.filter(pk=key.rpartition(":")[2]).values_list("likes", flat=True)
    return int(rows.first() or 0)


def decision(client: Client, endpoint: str, key: str) -> int:
    """With which status a counter is shown or changed, or is not."""
    answer = ask(client, endpoint, key)
    changed = Counter.objects.filter(key=key)
    if endpoint == "bulk/read":
        assert answer.status_code == 200
        return 404 if answer.json()["unknown"] == [key] else 200
    if answer.status_code != 200:
        problem(answer, answer.status_code)
        assert not changed.exists()
    elif endpoint not in READS:
        assert changed.get().value in (1, -1, 5)
    return int(answer.status_code)


@pytest.mark.parametrize("namespace", TABLE)
def test_every_role_at_every_endpoint(namespace: str, as_: As) -> None:
    clients = {role: as_(role) for role in ROLES}
    found = {
        endpoint: tuple(
            decision(client, endpoint, f"{namespace}:{role}/{endpoint}")
            for role, client in clients.items()
        )
        for endpoint in ENDPOINTS
    }
    assert found == TABLE[namespace]


def allowed_to(client: Client) -> set[str]:
    return {each for each in SINGLE if ask(client, each, "likes:a").status_code in (200, 409)}


@pytest.mark.parametrize("action", ALL)
def test_each_action_has_its_own_rule(action: str, as_: As) -> None:
    mine = {"read", "exact"} if action == "read" else {action}
    for rule, role, allowed in (
        ("authenticated", "user", mine),
        ("permission", "permitted", mine),
        (None, "superuser", set[str]()),
    ):
        with override_counters(likes={"API": {action: rule}}):
            assert allowed_to(as_(role)) == allowed, rule


@pytest.mark.parametrize("action", ALL)
def test_each_action_has_its_own_permission(action: str) -> None:
    user = User.objects.create_user("ann")
    # Who may view a counter may see how it went.
    verb = {"read": "view", "history": "view"}.get(action, action)
    code = "approve_adjustment" if action == "approve" else f"{verb}_counter"
    user.user_permissions.set(Permission.objects.filter(codename=code))
    client = Client()
    client.force_login(user)
    with override_counters(likes={"API": dict.fromkeys(ALL, "permission")}):
        mine = {"read", "exact", "history"} if verb == "view" else {action}
        assert allowed_to(client) == mine


@pytest.mark.parametrize("role", ["anonymous", "user"])
def test_unknown_and_forbidden_are_the_same_bytes(role: str, as_: As) -> None:
    Counter.objects.increment("guarded:a")
    expose(Post, "likes", read="staff", increment="staff", decrement="staff", adjust="staff")
    record = f"testapp.Post.likes:{Post.objects.create().pk}"
    keys = ["nowhere:a", "guarded:a", "guarded:b", "secret:a", record, "testapp.Post.likes:0"]
    keys += ["testapp.Post.views:1", "plain", "default:a", "nowhere:" + "x" * 180, "no%20key"]
    client = as_(role, HTTP_X_REQUEST_ID="r-7")
    for endpoint in ENDPOINTS:
        seen = {_bytes(ask(client, endpoint, key), key) for key in keys}
        assert len(seen) == 1, (endpoint, seen)


def _bytes(answer: Any, key: str) -> tuple[Any, ...]:
    headers = {name: value for name, value in answer.headers.items() if name != "Date"}
    # A bulk read lists what it was asked for, also how long that is.
    content = answer.content.replace(key.encode(), b"KEY")
    if key.encode() in answer.content:
        headers.pop("Content-Length", None)
    return answer.status_code, tuple(sorted(headers.items())), content


def test_a_record_that_is_hidden_is_one_that_there_is_not(as_: As) -> None:
    hidden = Post.objects.create(title="draft")
    shown = Post.objects.create(title="published")
    expose(Post, "likes", **ALL, records=Post.objects.filter(title="published"))
    root = as_("superuser", HTTP_X_REQUEST_ID="r-7")
    for endpoint in SINGLE:
        there_is_not, not_shown, there_is = (
            ask(root, endpoint, f"testapp.Post.likes:{pk}") for pk in (0, hidden.pk, shown.pk)
        )
        problem(not_shown, 404)
        assert _bytes(there_is_not, "") == _bytes(not_shown, "")
        # There is nothing to hold.
        assert there_is.status_code == {"history": 404, "hold": 409}.get(endpoint, 200)
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

    def test_one_that_asks_the_request(self, as_: As) -> None:
        with override_counters(likes={"API": dict.fromkeys(ALL, f"{self.HERE}.OnTuesdays")}):
            user = as_("user")
            assert allowed_to(user) == set()
            assert not Counter.objects.exists()
            user.credentials(HTTP_X_DAY="tuesday")
            assert allowed_to(user) == set(SINGLE)

    def test_one_that_asks_the_record(self, as_: As) -> None:
        rule = f"{self.HERE}.OwnTitle"
        expose(Post, "likes", read="authenticated", increment=rule)
        user = as_("user")
        mine = Post.objects.create(title="user0")
        other = Post.objects.create(title="somebody")
        first, second = (f"testapp.Post.likes:{post.pk}" for post in (mine, other))
        assert user.do("increment", first).json()["value"] == 1
        problem(user.do("increment", second), 403)
        # One that is forbidden stops all.
        both = {"counters": [{"key": first}, {"key": second}]}
        problem(user.bulk("increment", both), 403)
        assert user.at(first, "exact").json()["value"] == 1
        assert user.at(second, "exact").json()["value"] == 0
        assert user.bulk("increment", {"counters": [{"key": first}]}).status_code == 200
        expose(Post, "likes", read=rule)
        body = user.bulk("read", {"keys": [first, second]}).json()
        assert [each["key"] for each in body["counters"]] == [first]
        assert body["unknown"] == [second]
