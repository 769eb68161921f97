"""Each capability in `django_counters.contrib` is an app that a project can do without."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from django.apps import apps

from django_counters import contrib

PACKAGE = Path(contrib.__path__[0]).parent
CAPABILITIES = [one.name for one in iter_modules(contrib.__path__)]
# The capabilities that others need.
NEEDED = {"top": "series", "uniques": "series"}
# What an app declares, in files without models.
DECLARED = (".apps", ".options", ".calendar")
# Migrates and counts. The folders in the arguments are in use, all others may be gone.
PLAIN = """
import sys
import django
from django.conf import settings

labels = sys.argv[1:]
settings.configure(
    INSTALLED_APPS=[
        # It imports the panels of apps, also of those before the core.
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        *(f"django_counters.contrib.{name}" for name in labels),
        "django_counters",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
django.setup()
from django.core.management import call_command
from django.db import connection
from django_counters.models import Counter

call_command("check")
call_command("migrate", verbosity=0)
call_command("check", databases=["default"])
call_command("makemigrations", "--check", "--dry-run")
assert Counter.objects.increment("a") == 1
Counter.objects.adjust("a", by=2, reason="counted by hand", actor="a clerk")
call_command("counters", "upkeep")
call_command("counters", "verify")
assert Counter.objects.value("a") == 3
print(*(name for name in sys.modules if name.startswith("django_counters.contrib.")))
print(*connection.introspection.table_names())
"""


def run(folder: Path, *names: str) -> tuple[set[str], set[str]]:
    """Return the modules of capabilities that a project loads, and its tables."""
    command = [sys.executable, "-W", "error", "-c", PLAIN, *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *_, modules, tables = done.stdout.splitlines()
    return set(modules.split()), set(tables.split())


def without(tmp_path: Path, *names: str) -> Path:
    """Return a folder with a copy of the package that lacks the folders of these capabilities."""
    unwanted = {PACKAGE / "contrib" / name for name in names}

    def skipped(folder: str, entries: list[str]) -> list[str]:
        return [e for e in entries if e == "__pycache__" or Path(folder, e) in unwanted]

    shutil.copytree(PACKAGE, tmp_path / "django_counters", ignore=skipped)
    return tmp_path


@pytest.mark.parametrize("name", [*CAPABILITIES, ""])
def test_the_rest_counts_when_its_folder_is_deleted(name: str, tmp_path: Path) -> None:
    gone = [one for one in CAPABILITIES if name in (one, NEEDED.get(one), "")]
    left = [one for one in CAPABILITIES if one not in gone]
    folder = without(tmp_path, *gone)
    assert [one for one in gone if (folder / "django_counters/contrib" / one).exists()] == []
    modules, _ = run(folder, *left)
    assert {name.split(".")[2] for name in modules} == set(left)


def test_a_plain_project_loads_none_and_has_no_table_of_one(tmp_path: Path) -> None:
    # The checks look into these files, so the copy has what they look for.
    modules, tables = run(without(tmp_path))
    assert {
        name for name in modules if name.count(".") > 2 and not name.endswith(DECLARED)
    } == set()
    assert (
        tables
        & {
            model._meta.db_table
            for config in apps.get_app_configs()
            if config.name.startswith("django_counters.contrib.")
            for model in config.get_models()
        }
        == set()
    )


def refusal(code: str) -> str:
    """The error of code in a project with the core alone."""
    script = f"""
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes",
    "django_counters"])
django.setup()
{code}
"""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("name", CAPABILITIES)
def test_its_calls_name_the_app_that_is_missing(name: str) -> None:
    module = import_module(f"{contrib.__name__}.{name}")
    call = f"import {module.__name__} as capability; capability.{module.__all__[0]}"
    assert f"Add '{module.__name__}' to INSTALLED_APPS." in refusal(call)
    assert all(getattr(module, one) for one in module.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


@pytest.mark.parametrize("name", CAPABILITIES)
def test_its_models_are_refused_where_it_is_not_installed(name: str) -> None:
    """The core contains their module: else they would be the core's, with a migration there."""
    app = f"django_counters.contrib.{name}"
    for model in apps.get_app_config(f"django_counters_{name}").get_models():
        assert f"Add '{app}' to INSTALLED_APPS." in refusal(f"import {model.__module__}")


@pytest.mark.parametrize("name", CAPABILITIES)
def test_its_app_is_named_like_its_folder(name: str) -> None:
    config = apps.get_app_config(f"django_counters_{name}")
    assert config.name == f"django_counters.contrib.{name}"
    assert config.counters_feature  # type: ignore[attr-defined]
    readme = Path(config.path, "README.md").read_text()
    assert config.name in readme
    assert len(readme.splitlines()) <= 15
