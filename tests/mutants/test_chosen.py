"""Which mutants a run tries: what changed since the last release, and others drawn by the date."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutants import chosen, mutant
from tests.mutants.mutant import read

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")
NAMES = [f"f{number}" for number in range(5)]
ENTRIES = [f"{n}\ncode:{n}\n- return 1\n+ return 0\ntest_code.py::test_{n}" for n in NAMES]
MUTANTS = [one for entry in ENTRIES for one in read(entry)]


def git(folder: Path, *words: str, day: int = 1) -> None:
    who = {f"GIT_{one}_{of}": "x" for one in ("AUTHOR", "COMMITTER") for of in ("NAME", "EMAIL")}
    when = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"2026-01-{day:02}T12:00:00Z")
    subprocess.run(
        ["git", *words], cwd=folder, check=True, env=who | when | {"PATH": os.environ["PATH"]}
    )


@pytest.fixture(name="checkout")
def _checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of five mutants the first one's function changed, the second one's test; the last is new."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    code = "".join(f"def {name}():\n    return 1\n" for name in NAMES)
    tests = "".join(f"def test_{name}():\n    assert 1\n" for name in NAMES)
    (folder / "code.py").write_text(code)
    (folder / "test_code.py").write_text(tests)
    (folder / "all.txt").write_text("\n\n".join(ENTRIES[:4]))
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Begin", day=1)
    (folder / "code.py").write_text(code.replace("1", "2", 1))
    (folder / "test_code.py").write_text(tests.replace("f1():\n    assert 1", "f1():\n    pass"))
    git(folder, "commit", "-qam", "Change", day=3)
    return _used(folder, monkeypatch)


def _used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutant, "ROOT", folder)
    monkeypatch.setattr(chosen, "ROOT", folder)
    monkeypatch.setattr(chosen, "CATALOGUES", ["all.txt"])
    monkeypatch.setattr(chosen, "SAMPLE", 0)
    chosen._before.cache_clear()
    return folder


def names(*words: str) -> list[str]:
    return [one.name for one in chosen.by(words, MUTANTS)]


def test_what_changed_in_a_day(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert names() == ["f0", "f1", "f4"]
    assert "changed since" in capsys.readouterr().out


def test_what_changed_since_a_tag(checkout: Path) -> None:
    git(checkout, "tag", "0.1")
    assert names() == ["f4"]
    (checkout / "code.py").write_text("")  # not committed
    assert names() == NAMES


def test_the_others_are_drawn_by_the_day(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chosen, "CHANGED", 1)
    monkeypatch.setattr(chosen, "SAMPLE", 1)
    drawn = set()
    for day in map(str, range(20)):
        monkeypatch.setenv("COUNTERS_DAY", day)
        once = names()
        assert once == names()
        assert len(once) == 2
        drawn.update(once)
    assert drawn == set(NAMES)
    assert "COUNTERS_DAY=19" in capsys.readouterr().out


def test_all(checkout: Path) -> None:
    assert names("--all") == NAMES
    assert names("f2", "f3") == ["f2", "f3"]


def test_without_history_all(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", checkout.as_uri(), "shallow")
    _used(tmp_path / "shallow", monkeypatch)
    assert names() == NAMES
    shutil.rmtree(tmp_path / "shallow" / ".git")
    assert names() == NAMES
