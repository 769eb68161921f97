"""A strategy, or a projection, is one declaration and its name in a list or a feature."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import models
from django.test.utils import isolate_apps

from django_counters import CounterField, conf
from django_counters.checks import check_setting
from django_counters.effects import projector
from django_counters.errors import InvalidConfiguration
from django_counters.measure import Measure
from django_counters.models import Counter
from django_counters.options import Option, Projection, is_integer
from django_counters.registry import registry
from django_counters.strategies.declaring import Recipe
from django_counters.testing import override_counters
from tests.extension.twice import TWICE
from tests.shape import ROOT, plain_project
from tests.testapp.models import Post

pytestmark = pytest.mark.django_db


def why_no_crowd(crowd: object, **_: object) -> Iterator[str]:
    if crowd is not None and not is_integer(crowd, 1):
        yield f"{crowd!r} is no crowd."


CROWD = Projection(
    name="crowds",
    options=(Option("crowd", None, "None or an integer", "How many."),),
    problems=why_no_crowd,
    make=lambda crowd, **_: {"per": ("day",) if crowd else ()},
    in_namespaces="E027",
    in_fields="E028",
)


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The line that a new projection needs."""
    monkeypatch.setattr(conf, "_OWN", (*conf._OWN, CROWD))
    yield
    registry.forget_strategies()


def test_a_plain_project_imports_no_strategy_that_it_does_not_name() -> None:
    loaded = [Path(file).relative_to(ROOT).as_posix() for file in plain_project().files]
    assert "django_counters/strategies/exact.py" in loaded
    assert [file for file in loaded if "cached" in file or "/ledger/" in file] == []


def named(**options: Any) -> override_counters:
    return override_counters(toys={"STRATEGY": "twice", **options})


def test_named_counters_count_with_it() -> None:
    with named():
        assert Counter.objects.increment("toys:a", 5) == 10
        assert Counter.objects.increment_many({"toys:a": 1, "toys:b": 2})
        assert registry.policy("toys:a").recipe.strategy == "twice"
    with named(OPTIONS={"times": 3}):
        assert Counter.objects.increment("toys:a") == 15
        assert Counter.objects.value("toys:b") == 4
    assert run_checks() == []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"OPTIONS": {"times": 1}}, "E008", "'times' is an integer from 2 on, not 1."),
        ({"OPTIONS": {"time": 3}}, "E008", "twice has no option 'time'. Did you mean 'times'?"),
        ({"CACHE": "default"}, "E019", "CACHE is for cached counters, not for twice."),
        ({"FLOOR": 0}, "E009", "twice cannot hold a floor"),
        ({"STRATEGY": "double"}, "E004", "Nearly: it is 'twice'."),
        ({"STRATEGY": "twise"}, "E004", "Did you mean 'twice'?"),
        ({"CROWD": 0}, "E027", "0 is no crowd."),
        ({"CROWT": 0}, "E003", "Did you mean 'CROWD'?"),
    ],
)
def test_its_mistakes_are_checked(options: dict[str, Any], code: str, message: str) -> None:
    with named(**options):
        (error,) = check_setting()
        with pytest.raises(InvalidConfiguration):
            Counter.objects.increment("toys:a")
    assert error.id == f"counters.{code}"
    assert message in error.msg


@isolate_apps("tests.testapp")
def test_a_field_takes_its_options_and_checks_them() -> None:
    class Toy(models.Model):
        hits = CounterField(strategy="twice", times=3, crowd=4)
        wrong = CounterField(strategy="twice", times=1, floor=0, crowd=0)

        class Meta:
            app_label = "testapp"

    field: Any = Toy._meta.get_field("hits")
    said = {"strategy": "twice", "times": 3, "crowd": 4, "default": 0}
    assert field.deconstruct()[3] == said
    assert field.recipe == Recipe(TWICE, (("times", 3),))
    assert "times" in field.non_db_attrs
    found = {(error.id, error.msg) for error in Toy.check()}
    assert found == {
        ("counters.E016", "twice cannot hold a floor, exact and slotted can."),
        ("counters.E020", "'times' is an integer from 2 on, not 1."),
        ("counters.E028", "0 is no crowd."),
    }


def test_a_field_counts_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    field: Any = Post._meta.get_field("likes")
    monkeypatch.setitem(vars(field), "recipe", TWICE.recipe({"times": 4}, of_field=True))
    post = Post.objects.create()
    assert post.likes.increment(2) == 8
    post.refresh_from_db()
    assert post.likes == 8


def test_what_a_projection_declares_is_in_the_measure() -> None:
    with named(CROWD=7, PER=["month", "hour"]):
        periods = ("hour", "day", "month")
        expected = Measure("toys", options=(("per", periods),), projector=projector())
        assert registry.policy("toys:a").measure == expected
    with named():
        assert registry.policy("toys:a").measure is None
    with pytest.raises(TypeError, match="crowed"):
        CounterField(crowed=7)


TOYS = ("times", "crowd", "mood", "vouchers", "streaks", "tagged", "weekdays")


def test_editors_know_the_arguments_of_fields() -> None:
    (shown,) = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(CounterField)))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    common = {option.key for option in conf.COMMON}
    declared = {name for name in conf.field_options("exact") if name not in TOYS}
    assert {argument.arg for argument in shown.args.kwonlyargs} == common | declared
