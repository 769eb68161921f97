"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.apps import apps

from tests.shape import MOST, Shape, numbers

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "django_counters"
SOURCES = sorted(
    path
    for folder in ("django_counters", "example_project", "benchmarks", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
NAMES_THAT_REFUSE_NOTHING = {"core", "utils", "helpers", "common", "misc", "kinds"}
SQL = re.compile(r"\b(INSERT INTO|SELECT .+ FROM|UPDATE .+ SET|DELETE FROM|ALTER TABLE)\b")
# In the folder of a capability, files are named for the SQL that they hold.
ROOMS_OF_SQL = re.compile(
    r"stores/sql/dialects/|(contrib/\w+/)?migrations/"
    r"|(adjustments|ledger|contrib/\w+)/(sql|statements|postgresql|mysql|sqlite)(/\w+)?\.py$"
)


def test_a_file_is_short_and_its_name_says_what_it_holds() -> None:
    assert len(SOURCES) > 100
    # Django writes a migration, and all tables of an app are in its first one.
    chapters = [path for path in SOURCES if path.parent.name != "migrations"]
    assert [path for path in chapters if len(path.read_text().splitlines()) > 700] == []
    assert [path for path in SOURCES if path.stem in NAMES_THAT_REFUSE_NOTHING] == []


def test_no_file_carries_a_private_key() -> None:
    """Each of these folders is part of the source distribution."""
    key = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")
    folders = ("django_counters", "example_project", "benchmarks", "tests", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert [path for path in files if key.search(path.read_bytes())] == []


def texts(path: Path) -> list[str]:
    """All string constants of a file but its docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, documented)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value not in docstrings
    ]


def test_sql_stands_in_files_that_are_named_for_it() -> None:
    offenders = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(SQL.search(text) for text in texts(path))
    }
    assert offenders
    assert [path for path in offenders if not ROOMS_OF_SQL.match(path)] == []


def test_now_comes_only_from_the_clock() -> None:
    clocks = re.compile(r"timezone\.now|datetime\.now|utcnow|time\.time\(|today\(")
    users = [path.name for path in PACKAGE.rglob("*.py") if clocks.search(path.read_text())]
    assert users == ["clock.py"]


def test_importing_the_package_needs_no_settings_and_loads_no_django() -> None:
    script = (
        "import sys, django_counters, django_counters.pytest_plugin; "
        "assert 'django.db' not in sys.modules; print(django_counters.__version__)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_code_asks_what_a_strategy_can_do_and_not_which_it_is() -> None:
    assert Shape().questions == []


def test_no_files_need_each_other() -> None:
    """Not for types either: whoever reads a file has to know those below it, and no others."""
    assert Shape().circles == []


def test_the_package_gets_no_larger() -> None:
    """Each number of tests/shape.py is at most what it was. Lower them there with each change."""
    found = numbers(Shape())
    assert {name: (found[name], most) for name, most in MOST.items() if found[name] > most} == {}


def test_every_public_name_resolves() -> None:
    import django_counters

    for name in django_counters.__all__:
        assert getattr(django_counters, name)
    assert set(django_counters.__all__) <= set(dir(django_counters))
    with pytest.raises(AttributeError, match="nothing"):
        _ = django_counters.nothing


def test_a_star_import_of_the_models_takes_them_and_their_field_alone() -> None:
    taken: dict[str, object] = {}
    exec("from django_counters.models import *", taken)
    del taken["__builtins__"]
    models = {model.__name__ for model in apps.get_app_config("django_counters").get_models()}
    assert set(taken) == models | {"TotalField"}
