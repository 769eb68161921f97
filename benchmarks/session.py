"""One run: what was measured so far, and what failed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connection

from benchmarks import database, machine, page
from benchmarks.capacity.measuring import measured as capacity
from benchmarks.catalogue import CAPACITY, Group
from benchmarks.growth.measuring import Growth
from benchmarks.harness import Case, Effort, measure
from benchmarks.results import Document, empty, row_of
from example_project.bootstrap.services import services


@dataclass
class Session:
    """Measures; what it has is in ``document`` at any time, also where it was broken off.

    Attributes:
        failures: one line for each thing that could not be measured.
    """

    effort: Effort
    document: Document = field(default_factory=empty)
    failures: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def run(self, groups: Iterable[Group]) -> None:
        """Measure all of them; a failure is noted, and the next thing is measured."""
        for group in groups:
            with (
                services(durable=group.durable) as urls,
                database.scratch(urls.database),
                database.apart(urls.redis),
            ):
                present = machine.present()
                for line in machine.lines(present):
                    self._say(line)
                self.measure(group, present)

    def measure(self, group: Group, measured: Mapping[str, Any]) -> None:
        """Measure on the server that is there."""
        for case in group.cases:
            self._try(case.name, partial(self._case, case, measured))
        for growth in group.growths:
            self._try(growth.name, partial(self._growth, growth, measured))
        if group.capacity:
            self._try(CAPACITY, partial(self._capacity, measured))

    def _try(self, name: str, measuring: Callable[[], str]) -> None:
        """Note what was measured; an hour of measuring is not lost with one failure."""
        try:
            database.settle()
            told = measuring()
        except Exception as error:
            told = "failed"
            self.document["missing"].append(name)
            self.failures.append(f"{name}: {type(error).__name__}: {error}")
            connection.close()  # whatever state it was left in
        self._say(f"{name}: {told}")

    def _case(self, case: Case, measured: Mapping[str, Any]) -> str:
        row = row_of(measure(case, self.effort), measured)
        self.document["rows"].append(row)
        return f"{page.ratio(row['ratio'], case.target)}, {page.verdict(row)}"

    def _growth(self, growth: Growth, measured: Mapping[str, Any]) -> str:
        curve = growth.fields(growth.measured(self.effort))
        self.document["curves"].append(curve | {"measured": dict(measured)})
        return "measured"

    def _capacity(self, measured: Mapping[str, Any]) -> str:
        found = capacity(self.effort)
        self.document["capacity"] = found | {"measured": dict(measured)}
        return "measured"

    def _say(self, line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        print(f"{minutes:02}:{seconds:02} {line}", file=sys.stderr, flush=True)
