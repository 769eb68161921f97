"""Results that nobody has measured, and what is published of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks import curves, publish
from benchmarks.catalogue import Theme
from benchmarks.curves import Curve, Growth, Line, Point
from benchmarks.harness import Case, Effort, Pair, Result, Round, Sample, Target
from benchmarks.machine import Machine
from benchmarks.publish import PAGE
from benchmarks.report import Block, Report

TARGET = Target("at least", 2)
SHOWN = {"case", "subject", "reference", "ratio", "min", "max", "target", "target_type", "met"}


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def nothing() -> AbstractContextManager[Pair]:
    raise AssertionError("nothing is measured here")


CASES = [
    Case("met", "this", "that", TARGET, nothing),
    Case("update", "increment", "update", TARGET, nothing),
    Case("odd", "a|b", "that & <more>", Target("at most", 0.5), nothing),
    Case("shown", "this", "that", None, nothing),
]
THEMES = [Theme("First", CASES[:2]), Theme("Second", durable=CASES[2:])]
SLOWNESS = {"met": 3.0, "update": 1.9, "odd": 1.9, "shown": 1.5}


def machine(day: int = 1) -> Machine:
    return Machine(
        date=f"2026-01-{day:02}",
        system="Linux",
        cores=2,
        load="0.5",
        python="3.11.1",
        django="5.2",
        psycopg="3.2",
        postgresql="18.1",
        socket="TCP",
        fsync="on",
        synchronous_commit="on",
        redis_py="8.1",
        redis="Valkey 9.1",
        redis_socket="TCP",
    )


def result(case: Case, slowness: float, waits: tuple[float, ...] = ()) -> Result:
    """A reference that took so many times as long as the subject, and once a tenth longer."""
    subject = Sample(10, 1.0, waits)
    slow = [slowness * (1.1 if number == 0 else 1.0) for number in range(5)]
    return Result(case, tuple(Round(subject, Sample(10, each, waits)) for each in slow))


def growth(name: str = "tail", logarithmic: bool = True) -> Growth:
    def measured(effort: Effort, progress: curves.Progress) -> tuple[Line, ...]:
        raise AssertionError("nothing is measured here")

    title, note = "Reads & tails", "Roll up."
    return Growth(name, title, "entries", "µs a read", True, measured, note, logarithmic)


def curve(name: str = "tail", sizes: tuple[int, ...] = (0, 10), logarithmic: bool = True) -> Curve:
    mine = Line("ledger <tail>", tuple(Point(x, 20 + x, 19 + x, 22 + x) for x in sizes))
    theirs = Line("one row", tuple(Point(x, 10, 10, 10) for x in sizes), reference=True)
    return Curve(growth(name, logarithmic), (mine, theirs))


class Costs:
    """What the costs of units look like to the page."""

    def fields(self) -> dict[str, float]:
        return {"wal_bytes": 123.5}

    def markdown(self) -> list[str]:
        return ["| unit | cost |", "| --- | --- |", "| WAL | 123.5 |", ""]


def block(*names: str, day: int = 1) -> Block:
    one = machine(day)
    found = [result(case, SLOWNESS[case.name]) for case in CASES if case.name in names]
    return Block(one.fields(), one.lines(), found)


def everything() -> Report:
    first, second = block("met", "update"), block("odd", "shown")
    second.curves.append(curve())
    second.costs.append(Costs())
    return Report([first, second])


def published(report: Report, folder: Path, growths: tuple[str, ...] = ("tail",)) -> str:
    publish.publish(report, THEMES, growths, folder)
    return text_of(folder / PAGE)


def section(text: str, title: str) -> str:
    _, _, rest = text.partition(f"## {title}\n")
    return rest.partition("\n## ")[0]
