"""Who sends a request: users by their key, all others by an address that they cannot choose."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.test import RequestFactory
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView
from rest_framework_simplejwt.models import TokenUser
from rest_framework_simplejwt.tokens import AccessToken

from django_counters.rest.principal import address_of_client, principal_of

FORGED = "6.6.6.6, 5.5.5.5, 4.4.4.4"


def came(forwarded: str | None = None, direct: str = "1.2.3.4") -> HttpRequest:
    headers: Any = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=direct, **headers)


class TestProxies:
    @pytest.mark.parametrize(
        ("proxies", "forwarded", "expected"),
        [
            (None, None, "1.2.3.4"),
            (None, FORGED, "1.2.3.4"),
            (0, FORGED, "1.2.3.4"),
            (1, FORGED, "4.4.4.4"),
            (2, FORGED, "5.5.5.5"),
            (3, FORGED, "6.6.6.6"),
            (4, FORGED, "6.6.6.6"),
            (1, "4.4.4.4", "4.4.4.4"),
            (1, None, "1.2.3.4"),
            (1, "", "1.2.3.4"),
            (1, " , 6.6.6.6 ,4.4.4.4 ", "4.4.4.4"),
            (2, ",,4.4.4.4", "unknown"),
        ],
    )
    def test_whose_address_it_is(
        self, settings: Any, proxies: int | None, forwarded: str | None, expected: str
    ) -> None:
        settings.REST_FRAMEWORK = {"NUM_PROXIES": proxies}
        assert address_of_client(came(forwarded)) == expected

    def test_without_the_setting_the_header_is_not_read(self, settings: Any) -> None:
        settings.REST_FRAMEWORK = {}
        assert address_of_client(came(FORGED)) == "1.2.3.4"


class TestAddresses:
    @pytest.mark.parametrize(
        ("direct", "expected"),
        [
            ("", "unknown"),
            ("1.2.3.4", "1.2.3.4"),
            ("1.2.3.4:5678", "1.2.3.4"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::9]", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("::1", "::/64"),
            ("300.1.1.1", "300.1.1.1"),
            ("1.2.3.4:x", "1.2.3.4:x"),
            ("[]", "[]"),
            ("\0garbage {}", "\0garbage {}"),
            ("g" * 5_000, "g" * 100),
        ],
    )
    def test_what_is_made_of_it(self, direct: str, expected: str) -> None:
        assert address_of_client(came(direct=direct)) == expected

    def test_a_server_that_tells_nothing(self) -> None:
        assert address_of_client(HttpRequest()) == "unknown"


class TestPrincipals:
    def test_a_user_is_its_model_and_its_key(self) -> None:
        request: Any = came()
        request.user = User(pk=7)
        assert principal_of(request) == "user:auth.User:7"

    def test_a_user_of_a_token_is_its_key(self) -> None:
        request: Any = came()
        request.user = TokenUser(AccessToken.for_user(User(pk=7)))
        assert principal_of(request) == "user:TokenUser:7"

    def test_nobody_is_an_address(self) -> None:
        request: Any = came()
        assert principal_of(request) == "address:1.2.3.4"
        for user in (AnonymousUser(), None, User()):
            request.user = user
            assert principal_of(request) == "address:1.2.3.4"

    def test_a_request_of_rest_framework(self, settings: Any) -> None:
        settings.REST_FRAMEWORK = {"NUM_PROXIES": 1}
        factory = APIRequestFactory()
        request = factory.get("/", HTTP_X_FORWARDED_FOR=FORGED)
        assert principal_of(APIView().initialize_request(request)) == "address:4.4.4.4"
        force_authenticate(request, User(pk="a b"))
        assert principal_of(APIView().initialize_request(request)) == "user:auth.User:a b"
