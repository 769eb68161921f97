"""A capability in `django_counters.contrib` whose app isn't installed, but needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.test import modify_settings, override_settings

from django_counters import contrib

APPS = """
from dataclasses import replace

from django.apps import AppConfig

from django_counters.options import Option
from tests.extension.apps import Moods

TEMPER = Option("temper", None, "hot or None", "Its temper.")


class Feature(Moods):
    settings = ("COUNTERS_ABSENT",)
    commands = {"absent": "tests.extension.command"}
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


def test_its_option_names_the_app() -> None:
    with override_settings(COUNTERS={"likes": {"TEMPER": "hot"}}):
        [(code, message)] = found_by_checks()
    assert code == "counters.E062"
    assert message == (
        "COUNTERS['likes']: TEMPER needs 'django_counters.contrib.absent' in INSTALLED_APPS."
    )


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
