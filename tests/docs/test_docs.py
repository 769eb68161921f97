"""What the pages name exists, and what people look up stands there."""

from __future__ import annotations

import re
import tomllib
from argparse import _SubParsersAction
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from django.apps import apps
from django.urls import URLPattern

import django_counters
from django_counters import errors
from django_counters.features import installed
from django_counters.hints import HINTS
from django_counters.management.commands.counters import Command
from django_counters.rest.urls import urlpatterns
from tests.docs.pages import DOCS, ROOT, text_of

PACKAGE = Path(django_counters.__file__).resolve().parent
REFERENCE = DOCS / "reference"


def subclasses(cls: type[object]) -> Iterator[type[object]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_each_check_has_a_heading_and_a_hint_that_needs_no_page() -> None:
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    codes = {code for source in sources for code in re.findall(r'"([EW]\d{3})"', source)}
    anchor = re.compile(r"^\(counters-(\w+)\)=\n## counters\.(\w+)$", re.MULTILINE)
    found = anchor.findall(text_of(REFERENCE / "checks.md"))
    assert sorted(found) == sorted((code.lower(), code) for code in codes)
    # Whoever installs the package has no pages.
    paths = (path.parent.name for path in PACKAGE.glob("contrib/*/checks.py"))
    added = [import_module(f"django_counters.contrib.{name}.checks").HINTS for name in paths]
    own = (one for name, one in installed().items() if name.startswith(PACKAGE.name))
    added += [one.hints() for one in own]
    hints = {code: hint for one in (HINTS, *added) for code, hint in one.items()}
    assert sorted(hints) == sorted(codes)
    assert not re.search(r"\.html|\.md|documentation|reference", " ".join(map(str, hints.values())))


def test_there_is_advice_for_each_error_and_for_no_other() -> None:
    found = sorted(path.parent.name for path in PACKAGE.glob("contrib/*/errors.py"))
    added = [import_module(f"django_counters.contrib.{name}.errors") for name in found]
    names = {cls.__name__ for cls in subclasses(errors.CounterError)}
    public = {name for module in (errors, *added) for name in vars(module)}
    row = re.compile(r"^\| `([A-Z]\w+)` \|", re.MULTILINE)
    rows = set(row.findall(text_of(REFERENCE / "errors.md")))
    # An error of a capability may stand on its page.
    told = {
        name
        for page in (*DOCS.glob("*.md"), *(DOCS / "how-to").glob("*.md"))
        for name in row.findall(text_of(page))
    }
    assert {name for name in names if hasattr(errors, name)} <= rows
    assert names & public <= rows | told
    assert rows <= public


def test_each_public_name_is_documented() -> None:
    reference = text_of(REFERENCE / "api.md")
    for name in set(django_counters.__all__) - {"__version__"}:
        assert f"`{name}`" in reference, name


def test_the_page_of_the_command_has_each_sub_command_with_its_options() -> None:
    page = text_of(REFERENCE / "command.md")
    parser = Command().create_parser("manage.py", "counters")
    (subs,) = (a for a in parser._actions if isinstance(a, _SubParsersAction))
    # The page names them once, for all.
    of_django = {a.option_strings[-1] for a in parser._actions if a.option_strings}
    # Those of an app of the tests are on no page.
    paths = {name: path for one in installed().values() for name, path in one.commands.items()}
    shown = {
        name: sub
        for name, sub in subs.choices.items()
        if paths.get(name, "django_counters.").startswith("django_counters.")
    }
    assert set(shown) == set(re.findall(r"^## `counters ([\w-]+)`$", page, re.MULTILINE))
    for name, sub in shown.items():
        _, _, section = page.partition(f"## `counters {name}`")
        section, _, _ = section.partition("\n## ")
        for action in sub._actions:
            wanted = action.option_strings[-1] if action.option_strings else action.dest
            assert wanted in of_django or f"| `{wanted}" in section, f"{name} {wanted}"


def test_the_table_of_routes_has_each() -> None:
    _, _, routes = text_of(REFERENCE / "http.md").partition("## Routes")
    routes, _, _ = routes.partition("\n\n| In an answer")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| `(?:GET|POST) ([^`?]+)", routes, re.MULTILINE))
    assert rows == {
        str(one.name): re.sub(r"<\w+:(\w+)>", r"{\1}", str(one.pattern))
        for one in urlpatterns
        if isinstance(one, URLPattern) and one.callback.__module__.startswith("django_counters")
    }


def test_the_supported_versions_are_those_that_are_declared_and_tested() -> None:
    page = text_of(REFERENCE / "upgrades.md")
    rows = dict(re.findall(r"^\| (Python|Django) \| (.*?) \|", page, re.MULTILINE))
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    declared = re.findall(r"Python :: (\d\.\d+)", "\n".join(project["classifiers"]))
    assert rows["Python"].split(", ") == declared
    tested = re.findall(r"Django~=(\d+\.\d+)", text_of(ROOT / "tox.ini"))
    assert rows["Django"].split(", ") == tested
    assert re.findall(r"Django :: (\d\.\d+)", "\n".join(project["classifiers"])) == tested


def test_a_package_index_shows_no_link_into_the_repository() -> None:
    tool = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]
    shown = text_of(ROOT / "README.md")
    for one in tool["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        shown, changed = re.subn(one["pattern"], one["replacement"], shown)
        assert changed, one
    assert not re.search(r"\]\((?!https?:)", shown)
    assert "Which strategy?" in shown


def test_the_readme_says_how_many_tables_there_are() -> None:
    tables = {model._meta.db_table for model in apps.get_app_config("django_counters").get_models()}
    assert f"`migrate` makes {len(tables)} tables" in text_of(ROOT / "README.md")
