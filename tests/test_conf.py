"""The COUNTERS setting and its checks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.test import override_settings

from django_counters import conf
from django_counters.cached import strategy as cached
from django_counters.checks import check_caches, check_setting
from django_counters.contrib.series.options import HINTS as OF_SERIES
from django_counters.contrib.series.options import recorded_period
from django_counters.errors import InvalidConfiguration
from django_counters.hints import HINTS
from django_counters.ledger.upkeep import retention
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.dialects import dialect_of
from django_counters.types import Bounds

NAN, INFINITY = float("nan"), float("inf")
WRONG: list[tuple[Any, str, str]] = [
    ([], "E001", "must be a dictionary of namespaces"),
    ({"stock": 5}, "E001", "must be a dictionary of options"),
    ({"a:b": {}}, "E002", "cannot be a namespace"),
    ({5: {}}, "E002", "cannot be a namespace"),
    ({"a b": {}}, "E002", "white space"),
    ({"stock": {"max_age": 3}}, "E003", "Write 'max_age' within OPTIONS."),
    ({"stock": {"FLOR": 0}}, "E003", "Did you mean 'FLOOR'?"),
    ({"stock": {"BANANA": 0}}, "E003", "Known are: STRATEGY, FLOOR"),
    ({"stock": {"STRATEGY": "exakt"}}, "E004", "Did you mean 'exact'?"),
    ({"stock": {"STRATEGY": "banana"}}, "E004", "Known are: exact, sharded"),
    ({"stock": {"STRATEGY": "slotted"}}, "E004", "a named counter is 'sharded'"),
    ({"stock": {"OPTIONS": 1}}, "E008", "must be a dictionary"),
    ({"stock": {"OPTIONS": {"shards": 4}}}, "E008", "exact has no option 'shards'"),
    ({"stock": {"STRATEGY": "sharded", "OPTIONS": {"shards": 0}}}, "E008", "from 1 to 1024"),
    ({"stock": {"STRATEGY": "sharded", "OPTIONS": {"shards": True}}}, "E008", "not True"),
    ({"stock": {"STRATEGY": "sharded", "CEILING": 9}}, "E009", "hold a ceiling, exact can."),
    ({"stock": {"STRATEGY": "cached", "FLOOR": 0}}, "E009", "a floor, exact and sharded can."),
    ({"stock": {"STRATEGY": "cached", "OPTIONS": {"max_age": 0}}}, "E008", "'max_age' is a number"),
    ({"stock": {"STRATEGY": "cached", "OPTIONS": {"max_age": NAN}}}, "E008", "'max_age' is"),
    (
        {"stock": {"STRATEGY": "cached", "OPTIONS": {"timeout": -1}}},
        "E008",
        "'timeout' is a number",
    ),
    ({"stock": {"STRATEGY": "cached", "OPTIONS": {"timeout": INFINITY}}}, "E008", "'timeout' is"),
    (
        {"stock": {"STRATEGY": "cached", "OPTIONS": {"time_out": 1}}},
        "E008",
        "Did you mean 'timeout'",
    ),
    (
        {"stock": {"STRATEGY": "cached", "OPTIONS": {"returns": "notihng"}}},
        "E008",
        "'returns' is one of 'value', 'nothing', not 'notihng'. Did you mean 'nothing'",
    ),
    ({"stock": {"OPTIONS": {"returns": "nothing"}}}, "E008", "exact has no option 'returns'"),
    ({"stock": {"CACHE": "default"}}, "E019", "CACHE is for cached counters, not for exact"),
    ({"stock": {"STRATEGY": "ledger", "ON_REDIS_DOWN": "raise"}}, "E019", "not for ledger"),
    (
        {"stock": {"STRATEGY": "cached", "CACHE": 5}},
        "E019",
        "an alias of CACHES or a URL, not a value of type int",
    ),
    ({"stock": {"STRATEGY": "cached", "CACHE": ""}}, "E019", "an alias of CACHES or a URL"),
    ({"stock": {"STRATEGY": "cached", "ON_REDIS_DOWN": "legder"}}, "E019", "Did you mean 'ledger'"),
    ({"stock": {"STRATEGY": "cached", "ON_REDIS_DOWN": None}}, "E019", "not None"),
    ({"stock": {"STRATEGY": None}}, "E004", "unknown strategy None"),
    ({"stock": {"FLOOR": "0"}}, "E005", "'0' cannot be a floor"),
    ({"stock": {"FLOOR": True}}, "E005", "True cannot be a floor"),
    ({"stock": {"CEILING": 1.5}}, "E005", "1.5 cannot be a ceiling"),
    ({"stock": {"CEILING": 2**63}}, "E005", "does not fit"),
    ({"stock": {"HISTORY": "2h"}}, "E025", "HISTORY is None or one of '1h', '1d', not '2h'"),
    ({"stock": {"HISTORY": ["1h"]}}, "E025", "not ['1h']"),
    ({"orders": {"STRATEGY": "ledger", "HISTORY": "1h"}}, "E025", "HISTORY is not for ledger"),
    ({"stock": {"HISTORY_DAYS": 0}}, "E025", "HISTORY_DAYS is an integer from 1"),
    ({"stock": {"HISTORY_DAYS": "90"}}, "E025", "not '90'"),
    ({"stock": {"FLOOR": 5, "CEILING": 4}}, "E005", "the floor 5 is above the ceiling 4"),
]


@pytest.mark.parametrize(("setting", "code", "message"), WRONG)
def test_a_wrong_setting_is_a_check_error_and_counts_nothing(
    setting: Any, code: str, message: str
) -> None:
    with override_settings(COUNTERS=setting):
        (error,) = [*check_setting(), *check_caches()]
        # Without a database at hand: nothing is asked of it.
        with pytest.raises(InvalidConfiguration) as caught:
            Counter.objects.increment("stock:a")
    assert error.id == f"counters.{code}"
    assert message in error.msg
    assert message in str(caught.value)
    assert error.hint == {**HINTS, **OF_SERIES}[code]


# Some versions of Django ask the databases for their features.
@pytest.mark.django_db(databases=["default", "other"])
def test_django_reports_a_wrong_setting() -> None:
    with override_settings(COUNTERS={"a:b": {}}):
        found = [error.id for error in run_checks()]
    assert found == ["counters.E002"]


@pytest.mark.needs("ledger", "conditions")
@pytest.mark.django_db(databases=["default", "other"])
def test_the_project_of_the_tests_is_clean() -> None:
    found = run_checks(databases=["default", "other"], include_deployment_checks=False)
    if not (dialect := dialect_of("default")).reduced:
        assert found == []
    # What a database does less well is said once for each of the two; Django says more.
    ours = [one.id for one in found if str(one.id).startswith("counters.")]
    assert ours == (["counters.W019"] * 2 if dialect.reduced else [])


def test_nothing_is_required() -> None:
    with override_settings():
        assert registry.policy("anything") == conf.Policy(conf.EXACT, Bounds())


def test_a_namespace_owns_its_keys_and_the_default_has_the_rest() -> None:
    with override_settings(COUNTERS={"default": {"CEILING": 9}, "stock": {"FLOOR": 0}}):
        assert registry.policy("stock:a").bounds == Bounds(0, None)
        assert registry.policy("stock").bounds == Bounds(None, 9)
        assert registry.policy("stocks:a").bounds == Bounds(None, 9)
        assert registry.policy("default:a").bounds == Bounds(None, 9)


def test_what_a_cached_namespace_can_say_and_means_if_it_says_nothing() -> None:
    with override_settings(COUNTERS={"views": {"STRATEGY": "cached"}}):
        policy = registry.policy("views:a")
    meant = {"cache": "default", "on_redis_down": "ledger", "timeout": 0.05}
    recipe = cached.DECLARED.recipe().but(**meant)
    assert (policy.recipe, policy.bounds, policy.max_age) == (recipe, Bounds(), 5.0)
    views = {
        "STRATEGY": "cached",
        "CACHE": "redis://localhost/3",
        "ON_REDIS_DOWN": "raise",
        "OPTIONS": {"max_age": 60, "timeout": 0.5, "returns": "nothing"},
    }
    with override_settings(COUNTERS={"views": views}):
        policy = registry.policy("views:a")
    said = {"cache": "redis://localhost/3", "on_redis_down": "raise", "timeout": 0.5}
    said["returns"] = "nothing"
    recipe = cached.DECLARED.recipe().but(**said)
    assert (policy.recipe, policy.max_age) == (recipe, 60)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("cache", "problem"),
    [
        ("none", "there is no cache 'none'"),
        ("local", "is not a Redis"),
        ("http://localhost", "not the URL of a Redis"),
    ],
)
def test_what_is_no_redis_counts_nothing(cache: str, problem: str) -> None:
    local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    counters = {"views": {"STRATEGY": "cached", "CACHE": cache}}
    with (
        override_settings(CACHES={**settings.CACHES, "local": local}, COUNTERS=counters),
        pytest.raises(InvalidConfiguration, match=problem),
    ):
        Counter.objects.increment("views:a")
    assert not Counter.objects.exists()


def test_what_a_namespace_can_say_of_its_history() -> None:
    counters = {
        "views": {"HISTORY": "1h"},
        "likes": {"HISTORY": "1d", "HISTORY_DAYS": 400},
        "a": {},
    }
    with override_settings(COUNTERS=counters):
        policies = registry.policies()
    found = {
        name: (recorded_period(policy.options), policy.options.get("history_days", 90))
        for name, policy in policies.items()
    }
    assert found == {
        "default": ("", 90),
        "views": ("hour", 90),
        "likes": ("day", 400),
        "a": ("", 90),
    }


LEDGER, FOR_EVER = ({"STRATEGY": "ledger", "OPTIONS": {"retention_days": n}} for n in (90, None))
CACHED = {"STRATEGY": "cached"}


@pytest.mark.parametrize(
    ("namespaces", "days"),
    [
        ([LEDGER], 90),
        ([CACHED], 4),
        ([CACHED, LEDGER], 90),
        ([CACHED, FOR_EVER], None),
        ([LEDGER, FOR_EVER], None),
        ([{}], None),
    ],
)
def test_entries_are_kept_as_long_as_any_namespace_needs_them(
    namespaces: list[dict[str, Any]], days: int | None
) -> None:
    counters = {f"n{number}": options for number, options in enumerate(namespaces)}
    with override_settings(COUNTERS=counters):
        assert retention() == (None if days is None else timedelta(days=days))
