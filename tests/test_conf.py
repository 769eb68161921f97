"""The COUNTERS setting and its checks."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from django_counters import conf
from django_counters.exceptions import InvalidConfiguration
from django_counters.kinds.registry import registry
from django_counters.models import Counter
from django_counters.types import Bounds

WRONG: list[tuple[Any, str, str]] = [
    ([], "E001", "must be a dictionary of namespaces"),
    ({"stock": 5}, "E001", "must be a dictionary of options"),
    ({"a:b": {}}, "E002", "cannot be a namespace"),
    ({"": {}}, "E002", "cannot be a namespace"),
    ({5: {}}, "E002", "cannot be a namespace"),
    ({"a b": {}}, "E002", "white space"),
    ({"stock": {"FLOR": 0}}, "E003", "Did you mean 'FLOOR'?"),
    ({"stock": {"floor": 0}}, "E003", "Did you mean 'FLOOR'?"),
    ({"stock": {"BANANA": 0}}, "E003", "Known are: STRATEGY, FLOOR, CEILING"),
    ({"stock": {"STRATEGY": "exakt"}}, "E004", "Did you mean 'exact'?"),
    ({"stock": {"STRATEGY": "banana"}}, "E004", "Known are: exact, sharded"),
    ({"stock": {"STRATEGY": "slotted"}}, "E004", "a named counter is 'sharded'"),
    ({"stock": {"OPTIONS": 1}}, "E008", "must be a dictionary"),
    ({"stock": {"OPTIONS": {"shards": 4}}}, "E008", "exact has no option 'shards'"),
    ({"stock": {"OPTIONS": {"combin": True}}}, "E008", "Did you mean 'combine'?"),
    ({"stock": {"OPTIONS": {"combine": 1}}}, "E008", "'combine' is True or False"),
    ({"stock": {"STRATEGY": "sharded", "OPTIONS": {"shards": 0}}}, "E008", "from 1 to 1024"),
    ({"stock": {"STRATEGY": "sharded", "OPTIONS": {"shards": "many"}}}, "E008", "'many'"),
    ({"stock": {"STRATEGY": "sharded", "OPTIONS": {"shards": True}}}, "E008", "not True"),
    ({"stock": {"STRATEGY": "sharded", "FLOOR": 0}}, "E009", "cannot hold a floor"),
    ({"stock": {"STRATEGY": None}}, "E004", "unknown strategy None"),
    ({"stock": {"FLOOR": "0"}}, "E005", "'0' cannot be a floor"),
    ({"stock": {"FLOOR": True}}, "E005", "True cannot be a floor"),
    ({"stock": {"CEILING": 1.5}}, "E005", "1.5 cannot be a ceiling"),
    ({"stock": {"CEILING": 2**63}}, "E005", "does not fit"),
    ({"stock": {"FLOOR": 5, "CEILING": 4}}, "E005", "the floor 5 is above the ceiling 4"),
]


# Some versions of Django ask the databases for their features.
@pytest.mark.django_db(databases=["default", "other"])
@pytest.mark.parametrize(("setting", "code", "message"), WRONG)
def test_a_wrong_setting_is_a_check_error(setting: Any, code: str, message: str) -> None:
    with override_settings(COUNTERS=setting):
        (error,) = [e for e in run_checks() if (e.id or "").startswith("counters.")]
    assert error.id == f"counters.{code}"
    assert message in error.msg
    assert f"counters-{code.lower()}" in (error.hint or "")


@pytest.mark.django_db
@pytest.mark.parametrize(("setting", "code", "message"), WRONG)
def test_a_wrong_setting_counts_nothing(setting: Any, code: str, message: str) -> None:
    with override_settings(COUNTERS=setting), pytest.raises(InvalidConfiguration) as caught:
        Counter.objects.increment("stock:a")
    assert message in str(caught.value)
    assert not Counter.objects.exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_the_project_of_the_tests_is_clean() -> None:
    assert run_checks(databases=["default", "other"], include_deployment_checks=False) == []


def test_nothing_is_required() -> None:
    with override_settings():
        assert registry.policy("anything") == conf.Policy(conf.Recipe("exact"), Bounds())


def test_a_namespace_owns_its_keys_and_the_default_has_the_rest() -> None:
    with override_settings(COUNTERS={"default": {"CEILING": 9}, "stock": {"FLOOR": 0}}):
        assert registry.policy("stock:a").bounds == Bounds(0, None)
        assert registry.policy("stock").bounds == Bounds(None, 9)
        assert registry.policy("stocks:a").bounds == Bounds(None, 9)
        assert registry.policy("default:a").bounds == Bounds(None, 9)


def test_overridden_settings_are_seen_at_once_and_forgotten_again() -> None:
    with override_settings(COUNTERS={"stock": {"FLOOR": 1}}):
        assert registry.policy("stock:a").bounds.floor == 1
        with override_settings(COUNTERS={"stock": {"FLOOR": 2}}):
            assert registry.policy("stock:a").bounds.floor == 2
        assert registry.policy("stock:a").bounds.floor == 1
    assert registry.policy("stock:a").bounds.floor is None
