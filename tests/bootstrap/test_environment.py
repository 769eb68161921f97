"""Which interpreter the commands run in."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

from example_project.bootstrap import environment
from example_project.bootstrap.folders import ROOT


def _marked(venv: Path, text: str | None = None) -> Path:
    """Make what an interrupted run leaves: the mark, and nothing that runs."""
    (venv / environment.MARK).mkdir(parents=True)
    identity = f"{sys.version_info[0]}.{sys.version_info[1]} {venv}\n"
    (venv / environment.MARK / "made").write_text(identity if text is None else text)
    return venv


def test_an_old_python_gets_as_far_as_the_message() -> None:
    for package in ("example_project", "tests"):
        for name in ("__init__.py", "__main__.py"):
            text = (ROOT / package / name).read_text()
            assert "__future__" not in text  # unknown to Python 3.6
            ast.parse(text, feature_version=(3, 4))


def test_an_environment_that_somebody_else_has_made_is_left_alone(tmp_path: Path) -> None:
    assert environment.ours(tmp_path / ".venv")
    venv = _marked(tmp_path / ".venv")
    assert environment.ours(venv)
    assert not environment.ready(venv, "tests")
    if os.geteuid() == 0:  # only root can give a folder away
        os.chown(venv, 65534, 65534)
        assert not environment.ours(venv)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for text in (f"2.7 {venv}\n", f"{version} /copied/from/elsewhere/.venv\n"):
        shutil.rmtree(venv)
        assert not environment.ours(_marked(venv, text))
    shutil.rmtree(venv)
    (venv / "bin").mkdir(parents=True)
    assert not environment.ours(venv)


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
