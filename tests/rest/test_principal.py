"""Who sends a request: users by their key, all others by an address that they cannot choose."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.test import RequestFactory
from rest_framework_simplejwt.models import TokenUser
from rest_framework_simplejwt.tokens import AccessToken

from django_counters.limits.principal import address_of_client, principal_of

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
