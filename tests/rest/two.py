"""Two people: one asks for an adjustment over HTTP, and another one decides."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission, User
from rest_framework_simplejwt.tokens import AccessToken

from tests.rest.conftest import API, Client

#: Who may do what; nobody has the permissions of the other one.
MAY = {"clerk": ("adjust_counter",), "boss": ("approve_adjustment",)}
POLICY: dict[str, Any] = {
    "APPROVE_ABOVE": 10,
    "API": {
        "read": "permission",
        "increment": "authenticated",
        "adjust": "permission",
        "approve": "permission",
    },
}
ORDER: dict[str, Any] = {"by": 500, "reason": "a stocktake"}
KEY = "stock:a"


def person(name: str, *codes: str) -> User:
    """A new user with the permissions of their name, and with these."""
    user = User.objects.create_user(name)
    given = (*MAY.get(name, ()), *codes)
    user.user_permissions.set(Permission.objects.filter(codename__in=given))
    return user


def come(name: str, *codes: str) -> Client:
    """A new user who is logged in."""
    client = Client()
    client.force_login(person(name, *codes))
    return client


def holder(name: str, scope: str) -> Client:
    """A new user whose JSON web token has these scopes."""
    token = AccessToken.for_user(person(name))
    token["scope"] = scope
    client = Client()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def ask(who: Client, key: str = KEY, **order: Any) -> dict[str, Any]:
    """Ask for an adjustment that needs a second person."""
    extra = {name: order.pop(name) for name in list(order) if name.startswith("HTTP_")}
    answer = who.do("adjust", key, {"reason": "a stocktake", **(order or {"by": 500})}, **extra)
    assert answer.status_code == 202, answer.content
    found: dict[str, Any] = answer.json()
    return found


def see(who: Client, number: object) -> Any:
    """Read a request."""
    return who.get(f"{API}/requests/{number}")


def listed(who: Client, namespace: str = "stock", **parameters: Any) -> Any:
    """Read a page of requests."""
    return who.get(f"{API}/requests", {"namespace": namespace, **parameters})


def decide(
    who: Client, number: object, verb: str = "approve", body: Any = None, **more: Any
) -> Any:
    """Approve a request that was asked for at zero, or reject it."""
    given = {"approve": {"expected": 0}, "reject": {"note": "no"}}[verb] if body is None else body
    return who.post(f"{API}/requests/{number}/{verb}", given, **more)
