"""Who may reach a counter over HTTP, as it is declared: E026, and ``expose()``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from django_counters.access import (
    ACTIONS,
    AUDITED,
    CLOSED,
    CREATED,
    Access,
    access_of,
    access_problems,
)
from django_counters.checks import check_setting
from django_counters.errors import InvalidConfiguration
from django_counters.hints import HINTS
from django_counters.registry import registry
from django_counters.rest import expose, targets
from django_counters.rest.targets import exposed_as
from tests.testapp.models import Account, Post, Song

ORIGINS = ["https://example.org"]
BEACON = {"increment": "beacon", "origins": ORIGINS, "limit": "60/min"}
WRONG: list[tuple[Any, str]] = [
    ([], "API must be a dictionary"),
    ({"reed": "anyone"}, "unknown option 'reed'. Known are: read, increment"),
    ({"read": "everybody"}, "read is one of anyone, authenticated, staff, permission"),
    ({"read": "beacon"}, "read is one of"),
    ({"read": ["staff"]}, "not ['staff']"),
    ({"increment": "anyone"}, "an increment by anybody is a 'beacon'"),
    ({"decrement": "anyone"}, "decrement cannot be for 'anyone'; name who may"),
    ({"decrement": "beacon"}, "decrement is one of anyone, authenticated"),
    ({"read": "no.such.Class"}, "a permission class that cannot be imported"),
    ({"read": "rest_framework.permissions.IsNobody"}, "cannot be imported"),
    ({"read": "builtins.int"}, "no permission class"),
    ({"max_delta": 0}, "max_delta is an integer above zero, not 0"),
    ({"max_delta": True}, "not True"),
    ({"max_delta": 2**63}, "max_delta is an integer"),
    ({"max_counters": 0}, "max_counters is an integer above zero"),
    ({"limit": "60"}, "limit: "),
    ({"limit": "0/min"}, "limit: "),
    ({"limit": 60}, "limit: "),
    ({"increment": "beacon", "limit": "60/min"}, "a beacon needs 'origins'"),
    ({**BEACON, "origins": []}, "a beacon needs 'origins'"),
    ({**BEACON, "origins": "https://example.org"}, "a beacon needs 'origins'"),
    ({"increment": "beacon", "origins": ORIGINS}, "a beacon needs a 'limit'"),
    ({"increment": "staff", "origins": ORIGINS}, "'origins' are for beacons"),
    *(
        ({**BEACON, "origins": [origin]}, f"{origin!r} is no origin")
        for origin in (
            "*",
            "null",
            "",
            "https://example.org/",
            "https://example.org/page",
            "https://Example.org",
            "ftp://example.org",
            "https://",
            "http://[",
            5,
            None,
        )
    ),
]
# Those that can be said to `expose`: it knows its options, and what is None is not said.
SAID = [
    (declared, message)
    for declared, message in WRONG
    if isinstance(declared, dict)
    if set(declared) <= {*ACTIONS, "max_delta", "origins", "limit"}
    if None not in declared.values()
]
RIGHT: list[dict[str, Any]] = [
    {},
    {"read": "anyone"},
    {"read": None, "increment": None},
    dict.fromkeys(ACTIONS, "permission"),
    dict.fromkeys(ACTIONS, "rest_framework.permissions.IsAdminUser"),
    {"increment": "authenticated", "max_delta": 1, "max_counters": 1, "limit": "1/day"},
    {"increment": "authenticated", "max_delta": 2**63 - 1},
    BEACON,
    {**BEACON, "origins": ("http://localhost:8000", "https://example.org")},
]


@pytest.mark.parametrize(("declared", "message"), WRONG)
def test_what_is_wrong_is_a_check_error_and_opens_nothing(declared: Any, message: str) -> None:
    with override_settings(COUNTERS={"likes": {"API": declared}}):
        found = check_setting()
        with pytest.raises(InvalidConfiguration):
            registry.policy("likes:a")
    assert {error.id for error in found} == {"counters.E026"}
    (error,) = [error for error in found if message in error.msg]
    assert "COUNTERS['likes']" in error.msg
    assert error.hint == HINTS["E026"]


@pytest.mark.parametrize("declared", RIGHT)
def test_what_is_right_is_no_error(declared: dict[str, Any]) -> None:
    with override_settings(COUNTERS={"likes": {"API": declared}}):
        assert check_setting() == []
        access = registry.policy("likes:a").access
    for action in ACTIONS:
        assert access.rule(action) == (declared.get(action) or "")


@pytest.mark.parametrize(
    ("namespace", "why"),
    [
        ("default", "others cannot be reached"),
        (CREATED, "what the app keeps for itself"),
        (AUDITED, "what the app keeps for itself"),
    ],
)
def test_what_cannot_be_reached(namespace: str, why: str) -> None:
    with (
        override_settings(COUNTERS={namespace: {"API": {"read": "anyone"}}}),
        pytest.raises(InvalidConfiguration, match=why),
    ):
        registry.policies()


def test_what_is_not_said_is_for_nobody() -> None:
    assert access_of(None) == access_of({}) == CLOSED == Access()
    assert {CLOSED.rule(action) for action in ACTIONS} == {""}
    with override_settings(COUNTERS={"likes": {}, "default": {"CEILING": 9}}):
        assert registry.policy("likes:a").access == CLOSED
        assert registry.policy("anything").access == CLOSED


def test_each_mistake_is_told() -> None:
    declared = {"read": "x", "increment": "beacon", "max_delta": 0, "banana": 1}
    assert len(list(access_problems(declared))) == 5


class TestExpose:
    @pytest.fixture(autouse=True)
    def _nothing_exposed(self) -> Iterator[None]:
        before = dict(targets._exposed)
        targets._exposed.clear()
        yield
        targets._exposed.clear()
        targets._exposed.update(before)

    def test_what_is_exposed_has_a_name(self) -> None:
        expose(Post, "views", "likes", read="anyone", increment="authenticated", max_delta=5)
        assert sorted(targets._exposed) == ["testapp.Post.likes", "testapp.Post.views"]
        found = exposed_as("testapp.Post.likes")
        assert found is not None
        assert found.access == Access("anyone", "authenticated", max_delta=5)
        for label in ("testapp.Post.title", "testapp.post.likes", "Post.likes", "likes", ""):
            assert exposed_as(label) is None

    def test_the_last_one_holds(self) -> None:
        expose(Post, "likes", read="anyone", adjust="staff")
        expose(Post, "likes", read="staff")
        found = exposed_as("testapp.Post.likes")
        assert found is not None
        assert found.access == Access("staff")

    @pytest.mark.parametrize(("declared", "message"), SAID)
    def test_what_is_wrong_is_refused(self, declared: Any, message: str) -> None:
        with pytest.raises(InvalidConfiguration) as caught:
            expose(Post, "likes", **declared)
        assert "expose(testapp.Post): " in str(caught.value)
        assert exposed_as("testapp.Post.likes") is None

    @pytest.mark.parametrize("name", ["title", "nothing", "pk", ""])
    def test_what_is_no_counter_field(self, name: str) -> None:
        with pytest.raises(
            InvalidConfiguration, match=f"testapp.Post has no counter field '{name}'"
        ):
            expose(Post, "likes", name, read="anyone")
        assert exposed_as(f"testapp.Post.{name}") is None
        assert exposed_as("testapp.Post.likes") is None

    def test_what_has_decimal_places(self) -> None:
        with pytest.raises(InvalidConfiguration, match=r"Account\.balance has decimal places"):
            expose(Account, "balance", read="anyone")
        assert exposed_as("testapp.Account.balance") is None

    def test_somebody_has_to_be_named(self) -> None:
        with pytest.raises(InvalidConfiguration, match="say who may do what"):
            expose(Song, "plays")
        with pytest.raises(InvalidConfiguration, match="say who may do what"):
            expose(Song, "plays", limit="60/min")

    def test_some_field_has_to_be_named(self) -> None:
        with pytest.raises(InvalidConfiguration):
            expose(Song, read="anyone")
