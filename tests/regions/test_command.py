"""``manage.py counters regions``: how old what a region has of the others is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def said(capsys: Any, *options: str) -> str:
    with EU.settings(), CaptureQueriesContext(connections["other"]) as queries:
        call_command("counters", "regions", *options)
    assert len(queries) == 0
    out: str = capsys.readouterr().out
    return out


def test_it_shows_each_region(capsys: Any) -> None:
    assert said(capsys).splitlines() == [
        "eu: this region, incarnation 1, published never",
        "us: copied never",
    ]
    exchange(EU, US)
    EU.pass_time(90)
    EU.publish()
    own, peer = said(capsys, "show").splitlines()
    assert own.startswith("eu: this region, incarnation 1, published ")
    assert int(own.split()[-3]) < 60 <= 90 <= int(peer.split()[-3])
    assert peer.startswith("us: copied ")
    assert peer.endswith(" s ago")


def test_the_same_for_programs(capsys: Any) -> None:
    US.count("likes:x")
    exchange(US, EU)
    EU.pass_time(90)
    found = json.loads(said(capsys, "--json"))
    assert found.pop("published") >= 90
    assert found["lags"].pop("us") >= 90
    told = {"database": "default", "region": "eu", "incarnation": 1, "lags": {}, "strangers": []}
    assert found == told


def test_a_region_that_is_not_copied_any_more(capsys: Any) -> None:
    US.count("likes:x")
    exchange(US, EU)
    with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={}):
        call_command("counters", "regions")
    assert capsys.readouterr().out.splitlines()[1].startswith("us: not in COUNTERS_REGIONS")


def test_where_there_is_nothing_to_show() -> None:
    with EU.settings(), pytest.raises(CommandError, match="neither publishes nor copies"):
        call_command("counters", "regions", database="other")
    with override_settings(COUNTERS_REGION=None), pytest.raises(CommandError, match="_REGION"):
        call_command("counters", "regions")


def test_what_is_for_a_fence_alone() -> None:
    with EU.settings(), pytest.raises(CommandError, match="Only fence accepts"):
        call_command("counters", "regions", "--intact")


def test_a_fence_is_asked_for_by_name(capsys: Any) -> None:
    exchange(EU, US)
    with EU.settings():
        call_command("counters", "regions", "fence")
    assert "nothing was changed" in capsys.readouterr().out
