"""What the pages say is compared with the code."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from argparse import _SubParsersAction
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from django.db.models import Manager

import django_counters
from django_counters import conf, exceptions
from django_counters.fields import CounterValue, check_hint
from django_counters.management.commands.counters import Command
from django_counters.managers import (
    CounterManager,
    CounterRows,
    DeltaManager,
    ShardManager,
    SlotManager,
)
from django_counters.upkeep.doctor import Finding
from django_counters.upkeep.rollup import PAGE, Report

PACKAGE = Path(django_counters.__file__).resolve().parent
ROOT = PACKAGE.parent
DOCS = ROOT / "docs"
CHECKS = DOCS / "reference" / "checks.md"
ERRORS = DOCS / "reference" / "errors.md"
COMMAND = DOCS / "reference" / "command.md"
MANAGERS: dict[str, type] = {
    "Counter": CounterManager,
    "CounterAdjustment": Manager,
    "CounterDelta": DeltaManager,
    "CounterShard": ShardManager,
    "SlottedCounter": SlotManager,
}
PAGES = sorted(
    [*ROOT.glob("*.md"), *(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)],
)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def load_tables() -> ModuleType:
    """The generator of the tables; it is no package, only Sphinx imports it."""
    spec = importlib.util.spec_from_file_location("docs_tables", DOCS / "_ext" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Iterator[str]:
    yield from PYTHON.findall(text_of(page))


def codes_in_package() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    return {code for source in sources for code in re.findall(r'"([EW]\d{3})"', source)}


def subclasses(cls: type[object]) -> Iterator[type[object]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_each_check_has_a_heading_with_its_anchor_and_no_other_has() -> None:
    headings = re.findall(
        r"^\((counters-[ew]\d{3})\)=\n## counters\.([EW]\d{3})$", text_of(CHECKS), re.MULTILINE
    )
    assert [anchor for anchor, code in headings if anchor != f"counters-{code.lower()}"] == []
    found = [code for _, code in headings]
    assert sorted(found) == sorted(codes_in_package())
    assert len(re.findall(r"^## ", text_of(CHECKS), re.MULTILINE)) == len(found)


def test_hints_lead_to_the_page_of_the_checks() -> None:
    for code in codes_in_package():
        address = f"{CHECKS.relative_to(DOCS).with_suffix('.html')}#counters-{code.lower()}"
        assert address in check_hint(code)


def test_the_table_of_checks_has_every_check_with_its_message() -> None:
    rows = load_tables().check_rows()
    assert {row.code for row in rows} == codes_in_package()
    assert {row.level for row in rows} == {"error", "warning"}
    assert [row.code for row in rows if not re.search("[a-z]", row.message)] == []


def test_each_error_is_listed() -> None:
    names = {cls.__name__ for cls in subclasses(exceptions.CounterError)}
    mine = {name for name in names if hasattr(exceptions, name)}
    assert mine <= {row.name for row in load_tables().error_rows()}
    for name in mine:
        assert re.search(rf"^\| `{name}` \|", text_of(ERRORS), re.MULTILINE), name


def test_no_error_is_made_up() -> None:
    for name in re.findall(r"^\| `([A-Z]\w+)` \|", text_of(ERRORS), re.MULTILINE):
        assert hasattr(exceptions, name), name


def test_each_option_and_strategy_is_in_its_table() -> None:
    tables = load_tables()
    assert all(f"| `{option}` |" in tables.settings_table() for option in conf.OPTIONS)
    for name in {*conf.NAMED_STRATEGIES, *conf.FIELD_STRATEGIES}:
        assert f"| `{name!r}` |" in tables.strategies_table()
    for name, options in conf.NAMED_STRATEGIES.items():
        assert all(f"| `{o!r}` | `{name!r}` |" in tables.options_table() for o in options)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("settings.md", "settings"),
        ("settings.md", "options"),
        ("settings.md", "strategies"),
        ("checks.md", "checks"),
        ("errors.md", "errors"),
    ],
)
def test_the_generated_tables_stand_in_their_pages(page: str, name: str) -> None:
    assert f"```{{from-code}} {name}\n```" in text_of(DOCS / "reference" / page)
    assert name in load_tables().TABLES


@every_page
def test_python_blocks_compile(page: Path) -> None:
    for number, block in enumerate(blocks(page), start=1):
        compile(block, f"{page.name}, block {number}", "exec", ast.PyCF_ONLY_AST)


@every_page
def test_imports_of_the_package_exist(page: Path) -> None:
    for block in blocks(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
                module = import_module(node.module or "")
                missing = [a.name for a in node.names if not hasattr(module, a.name)]
                assert missing == [], f"{node.module} has no {missing}"


@every_page
def test_methods_that_are_called_exist(page: Path) -> None:
    text = text_of(page)
    for model, name in re.findall(r"\b(\w*Counter\w*)\.objects\.(\w+)", text):
        assert hasattr(MANAGERS[model], name), f"{model}.objects.{name}"
    for name in re.findall(r"\.(?:views|likes|stock|downloads)\.(\w+)\(", text):
        assert hasattr(CounterValue, name), name


@every_page
def test_relative_links_lead_to_files(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", text_of(page))):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        path, _, _ = target.partition("#")
        assert (page.parent / path).exists(), target


def test_each_public_name_is_documented() -> None:
    reference = text_of(DOCS / "reference" / "api.md")
    for name in set(django_counters.__all__) - {"__version__"}:
        assert f"`{name}`" in reference, name


def test_each_counting_method_has_its_twin_on_the_page_of_async() -> None:
    page = text_of(DOCS / "how-to" / "async.md")
    for cls in (*MANAGERS.values(), CounterRows, CounterValue):
        for name in vars(cls):
            if name.startswith("a") and hasattr(cls, name[1:]):
                assert f"`{name}`" in page, name


def test_the_page_of_the_command_has_each_sub_command_with_its_options() -> None:
    page = text_of(COMMAND)
    parser = Command().create_parser("manage.py", "counters")
    (subs,) = (a for a in parser._actions if isinstance(a, _SubParsersAction))
    assert set(subs.choices) == set(re.findall(r"^## `counters ([\w-]+)`$", page, re.MULTILINE))
    for name, sub in subs.choices.items():
        _, _, section = page.partition(f"## `counters {name}`")
        section, _, _ = section.partition("\n## ")
        for action in sub._actions:
            wanted = action.option_strings[-1]
            assert wanted == "--help" or f"| `{wanted}" in section, f"{name} {wanted}"


def test_the_examples_of_the_command_have_the_fields_that_it_prints() -> None:
    printed = [json.loads(line) for line in re.findall(r"^[{\[].*[}\]]$", text_of(COMMAND), re.M)]
    folded, findings = printed
    assert list(folded) == ["database", "dry_run", *(field.name for field in fields(Report))]
    assert findings
    assert all(list(one) == [field.name for field in fields(Finding)] for one in findings)


def test_the_pages_state_the_numbers_of_the_code() -> None:
    hot = text_of(DOCS / "how-to" / "hot-counters.md")
    assert set(re.findall(r"up to (\d+)", hot)) == {str(conf.MOST_SHARDS)}
    settings = text_of(DOCS / "reference" / "settings.md")
    assert set(re.findall(r"from 1 to ([\d,]+)", settings)) == {f"{conf.LARGEST_NUMBER:,}"}
    for page in (COMMAND, DOCS / "decisions" / "0009-rollup-deletes.md"):
        assert set(re.findall(r"page of (\d+) counters", text_of(page))) == {str(PAGE)}


def test_each_page_of_a_folder_is_in_its_index() -> None:
    for index in DOCS.glob("*/index.md"):
        for page in index.parent.glob("*.md"):
            listed = re.search(rf"^{re.escape(page.stem)}$", text_of(index), re.MULTILINE)
            assert page == index or listed, f"{page.name} is not in {index.parent.name}/index.md"


def test_the_tables_of_the_benchmarks_stand_on_one_page() -> None:
    head = "| case | subject | reference | ratio |"
    assert {page.parent.name for page in PAGES if head in text_of(page)} == {"benchmarks"}
