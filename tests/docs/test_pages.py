"""The page that helps to choose a strategy, and the glossary, say what the code does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations import (
    AddField,
    AlterField,
    AlterModelOptions,
    CreateModel,
    RemoveField,
    RenameField,
    RunPython,
)
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.test.utils import isolate_apps

from django_counters import CounterField, UnsupportedToken, clock, conf
from django_counters.models import Counter
from django_counters.strategies.base import Strategy
from django_counters.testing import override_counters
from django_counters.tokens import mint
from example_project.blog.models import Post
from tests.docs.test_docs import DOCS, PACKAGE, PYTHON, ROOT, text_of
from tests.testapp.models import Song

CHOOSE = text_of(DOCS / "explanation" / "choose.md")
MARKED = re.compile(r"<!-- strategies:begin -->\n(.*?)<!-- strategies:end -->", re.DOTALL)
STRATEGIES = list(dict.fromkeys((*conf.NAMED_STRATEGIES, *conf.FIELD_STRATEGIES)))
TOKENS = ("Token: any text", "Token: UUIDv7")
YES = {True: "yes", False: "no"}
named_strategies = pytest.mark.parametrize("strategy", conf.NAMED_STRATEGIES)


def shown() -> dict[str, dict[str, str]]:
    """The table of the page: by row, what stands under each strategy."""
    (table,) = MARKED.findall(CHOOSE)
    head, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")[1:-2]
    )
    names = [name.strip("`") for name in head[1:]]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows}


def classes() -> Mapping[str, type[Strategy]]:
    return {
        name: getattr(import_module(f"django_counters.strategies.{name}"), name.capitalize())
        for name in STRATEGIES
    }


def refused(**declared: object) -> bool:
    """Whether a namespace cannot be declared in this way."""
    return bool(list(conf.problems({"n": declared})))


def test_the_table_has_each_strategy_once() -> None:
    assert {row: sorted(cells) for row, cells in shown().items()} == dict.fromkeys(
        shown(), sorted(STRATEGIES)
    )


def test_named_counters_and_fields() -> None:
    assert shown()["Named counters"] == {
        name: YES[not refused(STRATEGY=name)] for name in STRATEGIES
    }
    assert shown()["Fields"] == {name: YES[name in conf.FIELD_STRATEGIES] for name in STRATEGIES}


def test_floors_and_ceilings() -> None:
    row = shown()["Floor and ceiling"]
    for name in conf.NAMED_STRATEGIES:
        assert row[name] == YES[not refused(STRATEGY=name, FLOOR=0, CEILING=9)], name
    for name in conf.FIELD_STRATEGIES:
        assert row[name] == YES["counters.E016" not in problems_of_a_field(name)], name


@isolate_apps("tests.testapp")
def problems_of_a_field(strategy: str) -> list[str | None]:
    class Thing(models.Model):
        n = CounterField(strategy=strategy, floor=0, ceiling=9)

        class Meta:
            app_label = "testapp"

    return [one.id for one in Thing._meta.get_field("n").check()]


def test_what_is_recorded_of_named_counters() -> None:
    row = shown()["`HISTORY`: totals recorded"]
    assert row["slotted"] == "no"
    for name in conf.NAMED_STRATEGIES:
        assert row[name] == YES[not refused(STRATEGY=name, HISTORY="1h")], name


def test_what_the_classes_say_of_themselves() -> None:
    rows = shown()
    for name, cls in classes().items():
        assert rows["Part of the transaction"][name] == YES[cls.joins], name
        assert rows["Writers hold the counter until they commit"][name] == YES[cls.holds], name
        assert rows["Reads on offer"][name] == ", ".join(cls.consistencies), name


def test_only_cached_counters_have_a_redis() -> None:
    for name, needs in shown()["Needs a Redis"].items():
        if name in conf.NAMED_STRATEGIES:
            assert needs == YES[not refused(STRATEGY=name, CACHE="default")], name


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
class TestCalls:
    """What cannot be read from the code is tried."""

    @named_strategies
    def test_what_an_increment_returns(self, strategy: str) -> None:
        key = _key(strategy)
        with override_counters(**{strategy: _declared(strategy)}):
            Counter.objects.increment(key, 4)
            returned: Any = Counter.objects.increment(key)
        told = shown()["`increment` returns"][strategy]
        assert (isinstance(returned, int) and returned == 5) == (told != "no number")

    @named_strategies
    def test_tokens(self, strategy: str) -> None:
        rows, key = shown(), _key(strategy)
        with override_counters(**{strategy: _declared(strategy)}):
            for row, token in (
                ("Token: any text", "order-4711"),
                ("Token: UUIDv7", mint(clock.utc())),
            ):
                for _ in range(2):
                    try:
                        Counter.objects.increment(key, token=token)
                    except UnsupportedToken:
                        assert rows[row][strategy] == "no"
                    else:
                        assert rows[row][strategy] in {"yes", "named only"}
            accepted = [row for row in TOKENS if rows[row][strategy] != "no"]
            assert Counter.objects.value(key) == len(accepted)

    def test_tokens_of_fields(self) -> None:
        song = Song.objects.create(title="Song")
        for token in ("order-4711", mint(clock.utc())):
            for _ in range(2):
                song.plays.increment(token=token)
        (read,) = Song.objects.with_counts("plays")
        assert read.plays == 2
        assert [shown()[row]["slotted"] for row in TOKENS] == ["yes", "yes"]
        post = Post.objects.create(title="Post", slug="post", body="")
        with pytest.raises(UnsupportedToken):
            post.views.increment(token=mint(clock.utc()))
        assert shown()["Token: UUIDv7"]["cached"] == "named only"


def _key(strategy: str) -> str:
    return f"{strategy}:a"


def _declared(strategy: str) -> dict[str, object]:
    patient = {"OPTIONS": {"timeout": 10}} if strategy == "cached" else {}
    return {"STRATEGY": strategy, **patient}


def test_what_is_to_be_pasted_is_accepted() -> None:
    declared = [block for block in PYTHON.findall(CHOOSE) if "COUNTERS" in block]
    assert len(declared) == 4
    for block in declared:
        names: dict[str, Any] = {}
        exec(block, names)
        assert list(conf.problems(names["COUNTERS"])) == []


def test_each_link_to_a_strategy_of_the_page_leads_there() -> None:
    wanted = set(re.findall(r"\]\(#(choose-\w+)\)", CHOOSE))
    assert wanted == set(re.findall(r"^\((choose-\w+)\)=$", CHOOSE, re.M))
    assert len(wanted) == 5


def test_it_begins_with_six_questions_at_most() -> None:
    questions, _, _ = CHOOSE.partition("## What to paste")
    assert 4 <= questions.count("?**") <= 6


UPGRADES = text_of(DOCS / "reference" / "upgrades.md")


def supported() -> dict[str, str]:
    (table,) = re.findall(r"<!-- supported:begin -->(.*?)<!-- supported:end -->", UPGRADES, re.S)
    return dict(re.findall(r"^\| (\w[\w, ]*?) \| (.*?) \|", table, re.MULTILINE))


def test_the_supported_versions_are_those_that_are_declared_and_tested() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    kinds = [one.split(" :: ") for one in project["classifiers"]]
    pythons = [kind[-1] for kind in kinds if kind[:2] == ["Programming Language", "Python"]]
    assert supported()["Python"].split(", ") == [one for one in pythons if "." in one]
    tested = re.findall(r"Django~=(\d+\.\d+)", text_of(ROOT / "tox.ini"))
    assert supported()["Django"].split(", ") == tested
    readme = " ".join(text_of(ROOT / "README.md").split())
    for name in ("PostgreSQL 14 and newer", "SQLite 3.35", "Redis 6.2", "Valkey 8"):
        number = name.removesuffix(" and newer").rpartition(" ")[2]
        assert name in readme
        assert any(number in versions for versions in supported().values()), name


@pytest.mark.django_db
def test_migrations_only_add() -> None:
    """What the page promises; a released version may run while the next one has migrated."""
    state = ProjectState()
    graph = MigrationLoader(connection).graph
    for key in graph.forwards_plan(graph.leaf_nodes("django_counters")[0]):
        migration = graph.nodes[key]
        for operation in migration.operations:
            before = state.clone()
            operation.state_forwards(key[0], state)
            if key[0] == "django_counters":
                assert adds(operation, before, state), f"{key[1]}: {operation.describe()}"


def adds(operation: Operation, before: ProjectState, after: ProjectState) -> bool:
    """Whether code that knows nothing of an operation works after it as before."""
    if isinstance(operation, AddField):
        return bool(operation.field.null or operation.field.has_default())
    if isinstance(operation, AlterField):
        name = ("django_counters", operation.model_name_lower)
        old, new = (s.models[name].fields[operation.name] for s in (before, after))
        old.set_attributes_from_name(operation.name)
        new.set_attributes_from_name(operation.name)
        editor: Any = connection.schema_editor()
        return not editor._field_should_be_altered(old, new)
    return isinstance(operation, CreateModel | RunPython | AlterModelOptions)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "operation",
    [
        RemoveField("counter", "outside"),
        RenameField("counter", "outside", "inside"),
        AddField("counter", "more", models.IntegerField()),
        AlterField("counter", "outside", models.CharField(max_length=5)),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_an_operation_that_takes_away_is_noticed(operation: Operation) -> None:
    before = MigrationLoader(connection).project_state()
    after = before.clone()
    operation.state_forwards("django_counters", after)
    assert not adds(operation, before, after)


def test_each_signal_is_named_on_the_page_of_the_api() -> None:
    names = re.findall(r"^(\w+) = (?:Plain)?Signal\(\)", text_of(PACKAGE / "signals.py"), re.M)
    reference = text_of(DOCS / "reference" / "api.md")
    assert names
    assert [name for name in names if name not in reference] == []


def test_the_glossary_has_no_word_twice() -> None:
    terms = re.findall(r"^(\w[^\n]*)\n  \w", text_of(DOCS / "reference" / "glossary.md"), re.M)
    assert len(terms) > 60
    assert sorted(terms) == sorted(set(terms))


# The words of the design, and its verbs.
WORDS = """
key namespace delta batch token reading total pending rollup shard slot store strategy kind upkeep
floor ceiling adjustment incident entry tail horizon partition archive history source generation
flush collector increment decrement add append read claim acknowledge fold prune
"""


@pytest.mark.parametrize("word", WORDS.split())
def test_each_word_of_the_design_is_explained(word: str) -> None:
    assert re.search(rf"^{word}\n  \w", text_of(DOCS / "reference" / "glossary.md"), re.M)
