"""Runs Django's own tests with counter fields in the models: ``python3 -m tests.django_suite``.

The tests are in the source distribution of the Django that is installed, which pip downloads. In a
copy of them each ``IntegerField`` of a model becomes an `IntegerCounterField`, and each
``BigIntegerField`` a `CounterField`. All that is not on the list in ``exclusions`` has to pass.

They run on the database of ``DATABASE_URL``, else on SQLite: they ask for extensions and collations
that the PostgreSQL of pip does not have.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

import django

from example_project.bootstrap import children
from example_project.bootstrap.folders import ROOT
from tests.django_suite.exclusions import APPLICATIONS

FIELD = re.compile(r"\bmodels\.(Big)?IntegerField\(")
IMPORT = "from tests.django_suite import substitutes"
# Without these the application would not be installed, or its migrations need those of others.
EDITS = {
    "ALWAYS_INSTALLED_APPS = [\n": '    "django_counters",\n',
    "    settings.MIGRATION_MODULES = {\n": '        "django_counters": None,\n',
}


def main(arguments: list[str]) -> int:
    """Run the tests of the applications that are named, or of all on the list; 0 if they pass."""
    with tempfile.TemporaryDirectory(prefix="django-suite-") as name:
        tests = _download(Path(name))
        replaced = sum(map(_substitute, APPLICATIONS, [tests] * len(APPLICATIONS)))
        print(f"Django {django.__version__}: {replaced} integer fields are counters", flush=True)
        for before, line in EDITS.items():
            _edit(tests / "runtests.py", before, line)
        return _run(tests, arguments or list(APPLICATIONS))


def _download(folder: Path) -> Path:
    """Where the tests of the installed Django are."""
    # Not every environment has a pip of its own.
    venv.create(folder / "pip", with_pip=True)
    pip = [str(folder / "pip" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    options = ["--quiet", "--no-deps", "--no-binary=:all:", f"--dest={folder}"]
    subprocess.run([*pip, "download", *options, f"Django=={django.__version__}"], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz") / "tests"


def _substitute(application: str, tests: Path) -> int:
    """Put counters into the models of an application, and return how many."""
    found = 0
    for path in [tests / application / "models.py", *(tests / application / "models").glob("*.py")]:
        if path.exists():
            source, replaced = FIELD.subn(_call, path.read_text(encoding="utf-8"))
            # A file starts with its docstring, if it has one.
            with_import = re.sub(r"^(?=from |import )", f"{IMPORT}\n", source, count=1, flags=re.M)
            path.write_text(with_import if replaced else source, encoding="utf-8")
            found += replaced
    return found


def _call(field: re.Match[str]) -> str:
    return f"substitutes.{'big_' if field[1] else ''}integer_field("


def _edit(path: Path, before: str, line: str) -> None:
    source = path.read_text(encoding="utf-8")
    if source.count(before) != 1:
        raise LookupError(f"{path.name} of Django {django.__version__} has no {before!r}")
    path.write_text(source.replace(before, before + line), encoding="utf-8")


def _run(tests: Path, applications: list[str]) -> int:
    os.environ.setdefault("DATABASE_URL", "sqlite://:memory:")
    os.environ["COUNTERS_TEST_RUN"] = secrets.token_hex(4)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    options = ["--settings=tests.django_suite.settings", f"--parallel={os.cpu_count() or 1}"]
    command = [sys.executable, "runtests.py", "--noinput", *options, *applications]
    return children.run(command, cwd=tests)
