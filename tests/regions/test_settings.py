"""What is wrong with the settings of regions that are reached over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection
from django.test import override_settings

from django_counters.checks import check_setting
from django_counters.contrib.regions.pulling import pull
from django_counters.contrib.regions.sql import STATEMENTS, UNOFFERED
from django_counters.errors import InvalidConfiguration
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.regions.serving import SECRET


def problems(address: Any, secrets: Any) -> list[str]:
    own = {"COUNTERS_REGION": "eu", "COUNTERS_REGION_SECRETS": secrets}
    with override_settings(**own, COUNTERS_REGIONS={"us": address}):
        found = [one.msg for one in run_checks() if one.id == "counters.E042"]
        if found:
            with pytest.raises(InvalidConfiguration):
                pull()
        return found


@pytest.mark.parametrize(
    "address",
    [
        "https://us.example/counters/region/",
        "https://us.example:8443",
        "https://10.0.0.1/",
        "http://localhost:8000/r/",
        "http://127.0.0.1/",
        "http://127.8.0.1:80/",
        "http://[::1]:8000/",
    ],
)
def test_addresses_that_are_right(address: str) -> None:
    assert problems(address, [SECRET]) == []


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("http://us.example/", "must begin with https://"),
        ("http://10.0.0.1/", "must begin with https://"),
        ("http://localhost.us.example/", "must begin with https://"),
        ("ftp://localhost/", "must begin with https://"),
        ("https://", "only a host and a path"),
        ("https:///x", "only a host and a path"),
        ("https://me:it@us.example/", "only a host and a path"),
        ("https://us.example/?x=1", "only a host and a path"),
        ("https://us.example/#x", "only a host and a path"),
        ("https://us.example/a b", "only a host and a path"),
        ("https://us.example/\n", "only a host and a path"),
        ("https://üs.example/", "only a host and a path"),
        ("https://us.example:0/", "only a host and a path"),
        ("https://us.example:http/", "is invalid"),
        ("https://[us.example/", "is invalid"),
        ("us.example", "neither an alias of DATABASES"),
    ],
)
def test_addresses_that_are_wrong(address: str, wrong: str) -> None:
    (found,) = problems(address, [SECRET])
    assert wrong in found


@pytest.mark.parametrize(
    ("secrets", "wrong"),
    [
        (None, "is missing"),
        ([], "is missing"),
        (SECRET, "must be a list"),
        ({SECRET}, "must be a list"),
        ([SECRET[:31]], "32 characters or more"),
        ([SECRET, ""], "32 characters or more"),
        ([SECRET.encode()], "32 characters or more"),
    ],
    ids=str,
)
def test_secrets_that_are_wrong(secrets: Any, wrong: str) -> None:
    (found,) = problems("https://us.example/", secrets)
    assert wrong in found
    assert SECRET[:31] not in found


def test_who_has_no_address_needs_no_secret() -> None:
    assert problems("other", None) == []
    assert problems("other", [SECRET[:32]]) == []
    (found,) = problems("other", [SECRET[:31]])
    assert "32 characters" in found


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"likes": {"REGIONAL": 1}}, "REGIONAL is True or False, not 1"),
        ({"likes": {"REGIONAL": True}}, "REGIONAL needs COUNTERS_REGION"),
        ({"likes": {"REGIONAL": True, "FLOOR": 1}}, "needs a FLOOR of 0"),
        ({"likes": {"REGIONAL": True, "CEILING": 9}}, "excludes CEILING"),
        ({"likes": {"TOP_UP": 9, "FLOOR": 0}}, "TOP_UP needs REGIONAL"),
        ({"likes": {"REGIONAL": True, "TOP_UP": 9}}, "TOP_UP needs a FLOOR of 0"),
        ({"likes": {"REGIONAL": True, "PER": ["day"]}}, "excludes PER"),
        ({"likes": {"REGIONAL": True, "BUFFER": {}}}, "excludes BUFFER"),
        ({"default": {"REGIONAL": True}}, "needs a namespace of its own"),
    ],
)
def test_an_option_that_is_wrong_counts_nothing(setting: Any, message: str) -> None:
    with override_settings(COUNTERS=setting, COUNTERS_REGION=None):
        (error,) = check_setting()
        with pytest.raises(InvalidConfiguration) as caught:
            Counter.objects.increment("likes:a")
    assert (error.id, error.hint) == (
        "counters.E041",
        "Remove REGIONAL or the option that it excludes.",
    )
    assert message in error.msg
    assert message in str(caught.value)


@pytest.mark.django_db
def test_a_database_that_can_have_none_is_refused() -> None:
    with override_settings(COUNTERS_REGION="eu"), override_counters(likes={"REGIONAL": True}):
        found = [m.msg for m in run_checks(databases=["default"]) if "REGIONAL" in m.msg]
        if connection.vendor in STATEMENTS:
            assert found == []
            return
        assert found == [f"COUNTERS['likes']: {UNOFFERED}"]
        with pytest.raises(InvalidConfiguration, match="Use PostgreSQL"):
            Counter.objects.value("likes:a")
