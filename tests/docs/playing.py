"""What is done with a block after it was run: functions are called, tests and requests are made."""

from __future__ import annotations

import ast
import inspect
import sys
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from asgiref.sync import async_to_sync
from celery import Task, current_app
from django import forms
from django.apps import AppConfig, apps
from django.conf import global_settings
from django.contrib import admin
from django.core.checks import ERROR
from django.db import models, transaction
from django.db.migrations import Migration
from django.db.migrations.state import ProjectState
from django.db.models import QuerySet
from django.test.utils import isolate_apps, override_settings
from django.utils.module_loading import import_string
from rest_framework.test import APIRequestFactory, force_authenticate
from rest_framework.views import APIView

from django_counters.checks import check_caches, check_setting
from django_counters.contrib.limits import Limit
from django_counters.models import Counter
from tests.docs.cast import COUNTED, Cast
from tests.docs.comments import SHOWN, check
from tests.docs.pages import Block

SITE = "tests.docs.site"
# Seconds. The machine of a test may be busy: a Redis that answers late is another test.
PATIENCE = 10
# Whose settings are read by others than Django.
OTHERS = ("CELERY_", "COUNTERS", "REST_FRAMEWORK", "SPECTACULAR_")
METHODS = ("get", "post", "put", "patch", "delete")


def begin(cast: Cast) -> None:
    """What is there before the first block of a page."""
    Counter.objects.increment_many(COUNTED)
    Limit.__init__.__kwdefaults__["timeout"] = PATIENCE  # type: ignore[index]
    for setting in cast.settings:
        declare(setting, cast[setting], cast)


def play(block: Block, tree: ast.Module, code: CodeType, cast: Cast) -> None:
    """Run a block, and do what its reader would do with what it defines."""
    names = cast.names
    names["__name__"] = _module_of(tree)
    names[SHOWN] = check
    with _apart(tree):
        exec(code, names)
        cast.defined |= _defined(tree)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                _class(names[node.name], node, cast)
    _put_back(cast)
    _keep(block, names)
    _settings(block, tree, cast)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_fixture(node):
            _call(names[node.name], node.name, cast)


def _is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether pytest alone may call a function."""
    return any(ast.unparse(one).startswith("pytest.fixture") for one in node.decorator_list)


def _defined(tree: ast.Module) -> set[str]:
    """What a block itself gives a name to."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return found


def _module_of(tree: ast.Module) -> str:
    """Where the models of a block belong to."""
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return f"{SITE}.shop.models" if classes & {"Product", "Order"} else f"{SITE}.blog.models"


def _apart(tree: ast.Module) -> Any:
    """Models of a block take no place from those of the site."""
    bases = [
        ast.unparse(base) for n in tree.body if isinstance(n, ast.ClassDef) for base in n.bases
    ]
    if "models.Model" not in bases:
        return ExitStack()
    around = ("django.contrib.auth", "django.contrib.contenttypes", "django_counters")
    return isolate_apps(f"{SITE}.blog", f"{SITE}.shop", *around)


def _put_back(cast: Cast) -> None:
    """Whoever uses a model later uses the one that has a table."""
    for name, value in cast.names.items():
        if isinstance(value, type) and issubclass(value, models.Model) and cast.knows(name):
            cast.names[name] = cast[name]


def _keep(block: Block, names: dict[str, Any]) -> None:
    """A block that names its file can be imported from there."""
    first = block.text.partition("\n")[0]
    if first.startswith("# mysite/") and first.endswith(".py"):
        name = first.removeprefix("# ").removesuffix(".py").replace("/", ".")
        module = ModuleType(name)
        vars(module).update(names)
        sys.modules[name] = module


def _settings(block: Block, tree: ast.Module, cast: Cast) -> None:
    """Settings exist, what they name can be imported, and ``COUNTERS`` hold from now on."""
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.isupper()}
    # Streams first: buffers name them.
    for name in sorted(found, reverse=True):
        value = cast.names.get(name)
        if not isinstance(value, dict | list | str) or cast.knows(name):
            continue
        assert _known(name) or not block.text.startswith("# settings.py"), (
            f"nobody reads the setting {name}"
        )
        for path in _paths(value):
            assert path in current_app.tasks or import_string(path)
        if name in ("COUNTERS", "COUNTERS_STREAMS"):
            declare(name, value, cast)


def _known(name: str) -> bool:
    """Whether somebody reads a setting of this name."""
    return hasattr(global_settings, name) or name.startswith(OTHERS)


def _paths(value: Any) -> Iterator[str]:
    """What is named in a setting and is of this package."""
    if isinstance(value, str):
        if value.startswith("django_counters.") and "*" not in value:
            yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _paths(one)


def declare(name: str, value: Any, cast: Cast) -> None:
    """A setting is this until the page ends; ``COUNTERS`` has to pass the checks."""
    if name == "COUNTERS":
        value = {namespace: _patient(options) for namespace, options in value.items()}
        with override_settings(COUNTERS=value):
            messages = [*check_setting(), *check_caches()]
        assert [one for one in messages if one.level >= ERROR] == []
    cast.change(name, value)


def _patient(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("STRATEGY") != "cached":
        return options
    return {**options, "OPTIONS": {"timeout": PATIENCE, **options.get("OPTIONS", {})}}


def _arguments(function: Callable[..., Any], of: str, cast: Cast) -> dict[str, Any]:
    """A value for each parameter that has no default."""
    given = {}
    for name, one in inspect.signature(function).parameters.items():
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            assert cast.knows(name) or cast.knows(f"{of}.{name}"), (
                f"{of}: tests/docs/cast.py has no value for {name}"
            )
            given[name] = cast.argument(of, name)
    return given


def _call(function: Any, name: str, cast: Cast) -> None:
    if isinstance(function, Task):
        arguments = _arguments(function.run, name, cast)
        function.apply(kwargs=arguments, throw=True)
        return
    given = _arguments(function, name, cast)
    if inspect.iscoroutinefunction(function):
        function = async_to_sync(function)
    with _undone() if name.startswith("test_") else ExitStack():
        found = function(**given)
    if isinstance(found, FunctionType) and found.__globals__ is cast.names:
        _call(found, found.__name__, cast)
    for one in found if isinstance(found, tuple) else [found]:
        if isinstance(one, QuerySet):
            list(one)


@contextmanager
def _undone() -> Iterator[None]:
    """As the fixture ``db`` does: what a test has counted is rolled back."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _class(cls: type, node: ast.ClassDef, cast: Cast) -> None:
    """Use a class as Django, Django REST framework or unittest would."""
    if issubclass(cls, models.Model):
        assert [one for one in cls.check() if one.level >= ERROR] == []
    elif issubclass(cls, unittest.TestCase):
        _test(cls)
    elif issubclass(cls, Migration):
        cls("0002_page", "blog").mutate_state(ProjectState.from_apps(apps))
    elif issubclass(cls, APIView):
        _request(cls, cast)
    else:
        _use(cls, node, cast)


def _test(cls: type[unittest.TestCase]) -> None:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    assert result.testsRun, f"{cls.__name__} has no tests"
    wrong = [text for _, text in [*result.errors, *result.failures]]
    assert wrong == [], "\n".join(wrong)


def _request(cls: type[APIView], cast: Cast) -> None:
    for method in METHODS:
        if method in vars(cls):
            request = APIRequestFactory().generic(method.upper(), "/")
            force_authenticate(request, cast["user"])
            given = _arguments(getattr(cls(), method), cls.__name__, cast)
            answer = cls.as_view()(request, **{k: v for k, v in given.items() if k != "request"})
            assert answer.status_code == 200, answer.data


def _use(cls: type, node: ast.ClassDef, cast: Cast) -> None:
    made: Any = _made(cls, cast)
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("__"):
            _call(getattr(made, one.name), one.name, cast)


def _made(cls: Any, cast: Cast) -> Any:
    if issubclass(cls, admin.ModelAdmin):
        (found,) = (one for one in admin.site._registry.values() if type(one) is cls)
        assert [one for one in found.check() if one.level >= ERROR] == []
        return found
    if issubclass(cls, forms.BaseForm):
        form = cls(cast.argument(cls.__name__, "data"))
        assert form.is_valid(), form.errors
        return form
    if issubclass(cls, AppConfig):
        return cls(cls.name, sys.modules[cls.name])
    return cls()
