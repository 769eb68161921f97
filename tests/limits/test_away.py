"""Limits whose store does not answer: what is admitted, and who is told."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.test import override_settings

from django_counters.contrib.limits import Limit, LimitResult, limited
from django_counters.contrib.limits import limit as limit_module
from django_counters.contrib.limits.limit import limit_away
from tests.limits.test_views import ask, plain, waiting
from tests.stores.test_failures import closed_database

DEAD = {
    "dead": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    }
}
REFUSED = LimitResult(False, 0, 1.0, 1.0, counted=False)
ADMITTED = LimitResult(True, 0, 0.0, 0.0, counted=False)


@pytest.fixture(autouse=True)
def _dead(settings: Any) -> None:
    settings.CACHES = {**settings.CACHES, **DEAD}


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """What receivers of the signal are told."""
    found: list[dict[str, Any]] = []

    def receive(sender: type, signal: Any, **named: Any) -> None:
        found.append(named)

    limit_away.connect(receive)
    yield found
    limit_away.disconnect(receive)


def away(**options: Any) -> Limit:
    return Limit(secrets.token_hex(8), "3/day", cache="dead", **options)


@pytest.mark.parametrize(
    ("setting", "own", "expected"),
    [
        (None, None, REFUSED),
        ("refuse", None, REFUSED),
        ("admit", None, ADMITTED),
        ("refuse", "admit", ADMITTED),
        ("admit", "refuse", REFUSED),
    ],
)
def test_what_the_settings_say(
    setting: Any, own: Any, expected: LimitResult, told: list[dict[str, Any]]
) -> None:
    given = {} if setting is None else {"COUNTERS_LIMITS_WHEN_AWAY": setting}
    one = away(when_away=own)
    with override_settings(**given):
        assert one.take("ann") == expected
        assert async_to_sync(one.atake)("ann") == expected
    decision = "admit" if expected else "refuse"
    assert told == [{"limit": one.name, "decision": decision}] * 2


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_database_that_is_away() -> None:
    with closed_database() as alias:
        assert Limit("a", "3/day", cache=None, using=alias).take("ann") == REFUSED


@pytest.mark.parametrize("view", [plain, waiting])
def test_views(view: Any) -> None:
    refused = ask(limited(away())(view))
    assert (refused.status_code, refused["Retry-After"]) == (503, "1")
    admitted = ask(limited(away(when_away="admit"))(view))
    assert (admitted.status_code, "RateLimit" in admitted) == (200, False)


def test_the_log_says_when_it_begins_and_ends(
    caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    one = away()
    with caplog.at_level(logging.INFO, "django_counters"):
        for _ in range(3):
            one.take("ann")
        settings.CACHES = {**settings.CACHES, "dead": settings.CACHES["default"]}
        for _ in range(2):
            assert Limit(one.name, "3/day", cache="dead", timeout=10).take("ann")
    # The breaker of the server has lines of its own.
    begins, ends = (line for line in caplog.messages if not line.startswith("Redis "))
    assert begins.startswith(
        f"The store of the limit {one.name!r} is unavailable, so none are admitted: "
    )
    assert ends == f"The store of the limit {one.name!r} answers again."


def test_names_without_number_take_no_more_room(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL, "django_counters"):
        for number in range(1_100):
            Limit(f"tenant {number}", "3/day", cache="dead").take("ann")
    assert len(limit_module._away) <= 1_000


@pytest.mark.parametrize(("value", "ids"), [("admit", []), ("maybe", ["counters.E035"])])
def test_the_setting_is_checked(value: str, ids: list[str]) -> None:
    with override_settings(COUNTERS_LIMITS_WHEN_AWAY=value):
        assert [one.id for one in run_checks() if "WHEN_AWAY" in one.msg] == ids
