"""The plugin of pytest in a trial: it gives the databases, and judges what becomes of the test."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import settings as examples

from tests.mutants import databases
from tests.mutants.hook.sitecustomize import Mutated

# What a mutant that makes no sense is noticed by.
NONSENSE = (ImportError, NameError, SyntaxError)


@pytest.fixture(scope="session")
def django_db_setup(request: pytest.FixtureRequest, django_db_blocker: Any) -> None:
    """As that of pytest-django, which it replaces: the databases are copies."""
    with django_db_blocker.unblock():
        databases.copy(_asked_for(request.session.items))


def _asked_for(items: Sequence[pytest.Item]) -> set[str]:
    """The databases that tests may reach."""
    marks = [mark for item in items for mark in item.iter_markers("django_db")]
    named = [mark.kwargs.get("databases") or () for mark in marks]
    named += [getattr(getattr(item, "cls", None), "databases", ()) for item in items]
    return {"default", *(alias for aliases in named for alias in aliases)}


class Judge:
    """Says of a run whether a test has failed, and by what.

    Attributes:
        noticed: what the test says that failed, in one line.
        broken: what has failed and is no test, in one line.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self.noticed = ""
        self.broken = ""

    def pytest_collection(self) -> None:
        """An example that fails is enough: nobody reads the smallest one."""
        phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
        examples.register_profile("mutants", examples.get_profile("counters"), phases=phases)
        examples.load_profile("mutants")

    def pytest_collection_finish(self) -> None:
        """A module that cannot be imported would fail any test."""
        loader = getattr(importlib.import_module(self.module).__spec__, "loader", None)
        assert isinstance(loader, Mutated), f"{self.module} is not the mutant"
        gc.freeze()  # nor is what was imported since

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, Any, Any]:
        report = yield
        if report.failed and call.excinfo:
            told = f"{item.name}: {call.excinfo.typename}: {call.excinfo.value}".split("\n")[0]
            if report.when == "call" and not isinstance(call.excinfo.value, NONSENSE):
                self.noticed = self.noticed or told
            else:
                self.broken = self.broken or f"{report.when}: {told}"
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken = self.broken or "the tests cannot be imported"
