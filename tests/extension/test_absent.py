"""A capability in `django_counters.contrib` whose app isn't installed, but needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import models
from django.test import Client, modify_settings, override_settings

from django_counters import contrib
from django_counters.fields import CounterField
from tests.testapp.models import Note, Talk, Tune

APPS = """
from dataclasses import replace

from django.apps import AppConfig

from django_counters.options import (Option)
from tests.extension.apps import Moods

TEMPER = Option("temper", None, "hot or None", "Its temper.")


class Feature(Moods):
    settings = ("COUNTERS_ABSENT",)
    commands = {"absent": "tests.extension.command"}
    actions = {"annoy": "absent.annoy_counter"}
    keeps_rates = True
    options = (replace(Moods.options[0], name="tempers", options=(TEMPER,)),)


class AbsentConfig(AppConfig):
    name = "django_counters.contrib.absent"
    counters_feature = Feature()
"""


@pytest.fixture(autouse=True)
def absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app of this name, which is not in INSTALLED_APPS."""
    folder = tmp_path / "absent"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "apps.py").write_text(APPS)
    monkeypatch.setattr(contrib, "__path__", [*contrib.__path__, str(tmp_path)])


def found_by_checks() -> list[tuple[str, str]]:
    return [(str(one.id), one.msg) for one in run_checks() if str(one.id).startswith("counters.")]


def test_its_setting_names_the_app() -> None:
    assert found_by_checks() == []
    with override_settings(COUNTERS_ABSENT=1):
        needs = "COUNTERS_ABSENT needs 'django_counters.contrib.absent' in INSTALLED_APPS."
        assert found_by_checks() == [("counters.E062", needs)]


@pytest.mark.parametrize("option", ["TEMPER", "temper"])
def test_its_option_names_the_app(option: str) -> None:
    with override_settings(COUNTERS={"likes": {option: "hot"}}):
        [(code, message)] = found_by_checks()
    assert code == "counters.E062"
    assert message == (
        "COUNTERS['likes']: TEMPER needs 'django_counters.contrib.absent' in INSTALLED_APPS."
    )


def test_its_option_of_a_field_names_the_app() -> None:
    needs = r"^temper needs 'django_counters\.contrib\.absent' in INSTALLED_APPS\.$"
    with pytest.raises(ImproperlyConfigured, match=needs):
        CounterField(temper="hot")
    with pytest.raises(TypeError, match="unexpected keyword argument 'shared'"):
        CounterField(shared=True)


@pytest.mark.parametrize(
    ("app", "model", "name", "option"),
    [
        ("likes", Note, "likes", "once"),
        ("top", Tune, "hearts", "top"),
        ("uniques", Talk, "seats", "unique"),
    ],
)
def test_a_field_that_was_made_with_the_app_names_it(
    app: str, model: type[models.Model], name: str, option: str
) -> None:
    """A test that overrides INSTALLED_APPS imports no models again."""
    field: Any = model._meta.get_field(name)
    needs = f"{option} needs 'django_counters.contrib.{app}' in INSTALLED_APPS."
    assert field.check() == []
    with modify_settings(INSTALLED_APPS={"remove": f"django_counters.contrib.{app}"}):
        [error] = field.check()
        with pytest.raises(ImproperlyConfigured, match=re.escape(needs)):
            field.clone()
    assert (error.id, error.msg) == ("counters.E062", needs)


def test_its_action_of_the_api_names_the_app() -> None:
    with override_settings(COUNTERS={"likes": {"API": {"annoy": "staff"}}}):
        [(_, message)] = found_by_checks()
    needs = "API: annoy needs 'django_counters.contrib.absent' in INSTALLED_APPS."
    assert message == f"COUNTERS['likes']: {needs}"


@pytest.mark.django_db
def test_its_route_of_a_counter_is_none_and_all_others_are_only_read() -> None:
    url, client = "/api/v1/counters/likes:a", Client()
    with override_settings(COUNTERS={"likes": {"API": {"read": "anyone"}}}):
        assert client.post(f"{url}/annoy").status_code == 404
        for read in (url, f"{url}/b", f"{url}/b/exact", f"{url}/annoy/exact"):
            answer = client.post(read)
            assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("job", ["publish", "pull"])
def test_a_job_of_regions_names_the_app_whatever_the_settings(job: str) -> None:
    app = "django_counters.contrib.regions"
    with (
        modify_settings(INSTALLED_APPS={"remove": app}),
        override_settings(COUNTERS_UPKEEP={job: 5}),
    ):
        needs = f"COUNTERS_UPKEEP: {job!r} needs {app!r} in INSTALLED_APPS."
        assert found_by_checks() == [("counters.E061", needs)]


def test_its_job_names_the_app() -> None:
    needs = "'cheer' needs 'django_counters.contrib.absent' in INSTALLED_APPS."
    with modify_settings(INSTALLED_APPS={"remove": "tests.extension"}):
        with override_settings(COUNTERS_UPKEEP={"cheer": 5}):
            assert found_by_checks() == [("counters.E061", f"COUNTERS_UPKEEP: {needs}")]
        with pytest.raises(CommandError, match=needs):
            call_command("counters", "upkeep", "cheer")


@pytest.mark.parametrize("arguments", [(), ("a",), ("--loop", "1", "a"), ("a", "--help")])
def test_its_sub_command_names_the_app(arguments: tuple[str, ...]) -> None:
    needs = r"absent needs 'django_counters\.contrib\.absent' in INSTALLED_APPS\."
    with pytest.raises(CommandError, match=needs):
        call_command("counters", "absent", *arguments)


def test_a_buffer_to_its_outlet_names_the_app() -> None:
    installed = ["tests.extension", "django_counters.contrib.streams"]
    with (
        modify_settings(INSTALLED_APPS={"remove": installed}),
        override_settings(COUNTERS={"likes": {"BUFFER": {"to": "diary"}}}),
    ):
        found = [message for code, message in found_by_checks() if code == "counters.E040"]
    assert found == [
        "COUNTERS['likes']: BUFFER: 'to' needs 'django_counters.contrib.streams' or "
        "'django_counters.contrib.absent' in INSTALLED_APPS."
    ]
