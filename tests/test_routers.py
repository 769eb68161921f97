"""Routers keep the tables of apps in contrib where their counters are."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

CORE = "django_counters"


class ByLabel:
    """Counters live in the database ``other``, and only there: but for the apps in contrib."""

    def db_for_write(self, model: Any, **_hints: Any) -> str | None:
        return "other" if model._meta.app_label == CORE else None

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool:
        return (db == "other") == (app_label == CORE)


class ByPrefix(ByLabel):
    """The same, for all of them."""

    def db_for_write(self, model: Any, **_hints: Any) -> str | None:
        return "other" if model._meta.app_label.startswith(CORE) else None

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool:
        return (db == "other") == app_label.startswith(CORE)


class Anywhere(ByLabel):
    """All tables are in all databases."""

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool:
        return True


MODELS = (
    "django_counters_holds.CounterHold",
    "django_counters_likes.CounterActor",
    "django_counters_regions.CounterRegion",
    "django_counters_series.CounterCell",
    "django_counters_series.CounterOccurrence",
    "django_counters_series.CounterSample",
    "django_counters_series.CounterTag",
    "django_counters_top.CounterRank",
    "django_counters_uniques.CounterMember",
    "django_counters_uniques.CounterUnique",
)
LACKS = [
    ("counters.E064", f"Routers allow counters in 'other', and {model} not there.")
    for model in MODELS
]
ELSEWHERE = [
    ("counters.W025", f"Routers write counters to 'other', and {model} to 'default'.")
    for model in MODELS
]


@pytest.mark.parametrize(
    ("router", "expected"),
    [
        (None, []),
        (ByPrefix, []),
        (Anywhere, ELSEWHERE),
        (ByLabel, [*LACKS, *ELSEWHERE]),
    ],
)
def test_the_rule_to_change_is_named(router: type | None, expected: list[tuple[str, str]]) -> None:
    with override_settings(DATABASE_ROUTERS=[router()] if router else []):
        reports = [one for one in run_checks() if one.id in ("counters.E064", "counters.W025")]
    # The apps of the tests have tables of their own labels.
    reports = [one for one in reports if "moods." not in one.msg and "weekdays." not in one.msg]
    assert sorted((str(one.id), one.msg) for one in reports) == expected
    assert all('app_label.startswith("django_counters")' in str(one.hint) for one in reports)
