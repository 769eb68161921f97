"""Who sends a request: users by their key, all others by an address that they cannot choose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.test import RequestFactory
from rest_framework_simplejwt.models import TokenUser
from rest_framework_simplejwt.tokens import AccessToken

from django_counters.principal import address_of_client, network_of, principal_of
from django_counters.rest.actors import actor_in

FORGED = "6.6.6.6, 5.5.5.5, 4.4.4.4"


def came(forwarded: str | None = None, direct: str = "1.2.3.4") -> HttpRequest:
    headers: Any = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=direct, **headers)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (None, None, "1.2.3.4"),
        (None, FORGED, "1.2.3.4"),
        (0, FORGED, "1.2.3.4"),
        (1, FORGED, "4.4.4.4"),
        (2, FORGED, "5.5.5.5"),
        (4, FORGED, "6.6.6.6"),
        (1, None, "1.2.3.4"),
        (1, "", "1.2.3.4"),
        (1, " , 6.6.6.6 ,4.4.4.4 ", "4.4.4.4"),
        (2, ",,4.4.4.4", "unknown"),
    ],
)
def test_whose_address_it_is(
    settings: Any, proxies: int | None, forwarded: str | None, expected: str
) -> None:
    settings.REST_FRAMEWORK = {"NUM_PROXIES": proxies}
    assert address_of_client(came(forwarded)) == expected


@pytest.mark.parametrize(
    ("direct", "expected"),
    [
        ("", "unknown"),
        ("1.2.3.4:5678", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
        ("2001:DB8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("1.2.3.4:x", "1.2.3.4:x"),
        ("[]", "[]"),
        ("\0garbage {}", "\0garbage {}"),
        ("g" * 5_000, "g" * 100),
    ],
)
def test_what_is_made_of_it(direct: str, expected: str) -> None:
    assert address_of_client(came(direct=direct)) == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User(pk=7), "user:auth.User:7"),
        (TokenUser(AccessToken.for_user(User(pk=7))), "user:TokenUser:7"),
        *((nobody, "address:1.2.3.4") for nobody in (AnonymousUser(), None, User())),
    ],
)
def test_who_sends_it(user: Any, expected: str) -> None:
    request: Any = came()
    request.user = user
    assert principal_of(request) == expected


def token_of(**claims: Any) -> AccessToken:
    found = AccessToken()
    for name, claim in claims.items():
        found[name] = claim
    return found


class Opaque:
    """A token of which nothing is known."""


NAMED = SimpleNamespace(username="ann", is_authenticated=True)
LONG = token_of(user_id="auth0|" + "x" * 200)
A, B = token_of(sub="a"), token_of(sub="b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (A, B),
        ({"sub": "a"}, {"sub": "b"}),
        ({"sub": "a", "iss": "x"}, {"sub": "a", "iss": "y"}),
        ({"scope": "x"}, {"scope": "y"}),
        ("key-a", "key-b"),
        (b"key-a", b"key-b"),
        (User(pk=7), User(pk=8)),
        (SimpleNamespace(token="a"), SimpleNamespace(token="b")),
    ],
)
def test_tokens_without_a_user_are_told_apart(one: Any, other: Any) -> None:
    principals = []
    for auth, address in ((one, "1.2.3.4"), (one, "5.6.7.8"), (other, "1.2.3.4")):
        request: Any = came(direct=address)
        request.user, request.auth = AnonymousUser(), auth
        principals.append(principal_of(request))
        assert network_of(request, 48) is None
    assert principals[0] == principals[1] != principals[2]
    assert "key-a" not in principals[0]


def test_a_token_that_was_renewed_is_the_same_principal() -> None:
    renewed = [token_of(sub="a", iat=seconds) for seconds in (1, 2)]
    assert len({principal(auth) for auth in renewed}) == 1


def test_a_token_of_which_nothing_is_known_is_an_address() -> None:
    """Its text would be another one for each request, and so would each limit."""
    assert principal(Opaque()) == "address:1.2.3.4"


@pytest.mark.parametrize("auth", [True, "", {}, User(), User(username="a")])
def test_a_token_that_names_nobody_is_an_address(auth: Any) -> None:
    """Else all clients would be one: each could release what another one holds."""
    assert principal(auth) == "address:1.2.3.4"


@pytest.mark.parametrize("user", [User(pk=7), User(username="ann"), NAMED, TokenUser(LONG)])
def test_a_user_stays_the_same_with_another_token(user: Any) -> None:
    found = set()
    for auth in ("first", "renewed", True, User(pk=1), User(pk=2), None):
        request: Any = came()
        request.user, request.auth, request._request = user, auth, request
        found.add((principal_of(request), actor_in(request)))
    ((_, actor),) = found
    assert 0 < len(actor) <= 64


def principal(auth: Any) -> str:
    request: Any = came()
    request.user, request.auth = AnonymousUser(), auth
    return principal_of(request)
