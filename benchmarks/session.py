"""One run: what was measured so far, and what failed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from django.db import Error, connection

from benchmarks import database, machine
from benchmarks.catalogue import CAPACITY, Group
from benchmarks.curves import Curve, Growth
from benchmarks.harness import Case, Effort, Result, WrongSum, measure
from benchmarks.load import LoadFailed
from benchmarks.pgbench import PgbenchFailed
from benchmarks.progress import Progress
from benchmarks.report import Block, Costs, Report, fields, figure, verdict
from benchmarks.writers import WriterFailed
from example_project.bootstrap.services import services

# These say by themselves what is wrong; of any other error one wants to see where it came from.
EXPLAINED = (WrongSum, WriterFailed, LoadFailed, PgbenchFailed, Error)
Measured = TypeVar("Measured")


@dataclass
class Session:
    """Measures; what it has is in ``report`` at any time, also where it was broken off.

    Attributes:
        begun: is told of the first server and of the machine, before anything is measured.
        report: what was measured so far.
        failures: one line for each thing that could not be measured.
    """

    effort: Effort
    progress: Progress
    begun: Callable[[Block], None] = lambda _: None
    report: Report = field(default_factory=lambda: Report([]))
    failures: list[str] = field(default_factory=list)

    def run(self, groups: Iterable[Group]) -> None:
        """Measure all of them; a failure is noted, and the next thing is measured.

        Raises:
            BootstrapError: there is no server, and none could be started.
        """
        for group in groups:
            with (
                services(durable=group.durable) as urls,
                database.scratch(urls.database),
                database.apart(urls.redis),
            ):
                present = machine.present()
                block = Block(present.fields(), present.lines())
                if not self.report.blocks:
                    self.begun(block)
                self.report.blocks.append(block)
                self._fill(block, group)

    def _fill(self, block: Block, group: Group) -> None:
        for case in group.cases:
            self._keep(block.results, case.name, partial(self._result, case), _words)
        for growth in group.growths:
            self._keep(block.curves, growth.name, partial(self._curve, growth))
        if group.capacity:
            self._keep(block.costs, CAPACITY, self._costs)

    def _keep(
        self,
        kept: list[Measured],
        name: str,
        measured: Callable[[], Measured],
        words: Callable[[Measured], str] = lambda _: "measured",
    ) -> None:
        """Note what was measured; an hour of measuring is not lost with one failure."""
        try:
            database.settle()
            found = measured()
        except Exception as error:
            self.failures.append(f"{name}: {_reason(error)}")
            self.progress.done(f"{name}: failed")
            connection.close()  # whatever state it was left in
        else:
            kept.append(found)
            self.progress.done(f"{name}: {words(found)}")

    def _result(self, case: Case) -> Result:
        return measure(case, self.effort, self.progress)

    def _curve(self, growth: Growth) -> Curve:
        return Curve(growth, growth.measure(self.effort, self.progress))

    def _costs(self) -> Costs:
        from benchmarks import capacity

        return capacity.measure(self.effort, self.progress)


def _words(result: Result) -> str:
    target = result.case.target
    told = figure(result.ratio, target)
    if target is None:
        return told
    return f"{told} ({target}, {verdict(fields(result))})"


def _reason(error: Exception) -> str:
    if isinstance(error, EXPLAINED):
        return str(error).strip()
    return "".join(traceback.format_exception(error)).strip()
