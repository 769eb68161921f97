"""What is shown: one live line, and the table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

from example_project.flow import grouped
from example_project.report import Report
from example_project.verify import Count, sums_of

EVERY_ON_TERMINAL = 0.5
EVERY_IN_LOG = 5.0


def say(text: str) -> None:
    """A message; standard output belongs to results."""
    print(text, file=sys.stderr, flush=True)


class LiveLine:
    """One line that is rewritten on a terminal, and repeated every 5 s elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rewrites = stream.isatty()
        self._due = time.monotonic() + (0 if self._rewrites else EVERY_IN_LOG)
        self._width = 0

    def is_due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() >= self._due

    def show(self, text: str) -> None:
        """Show the line."""
        self._due = time.monotonic() + (EVERY_ON_TERMINAL if self._rewrites else EVERY_IN_LOG)
        if self._rewrites:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave the line as it is and begin another one."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns under their names: the first one to the left, numbers to the right."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def written(report: Report) -> str:
    """The report as text."""
    counts = table(
        ("counter", "counted", "", "expected", "unknown", ""),
        (
            (
                c.counter,
                grouped(c.counted),
                _sign(c),
                grouped(c.expected),
                grouped(c.unknown) if c.unknown else "",
                _mark(c.ok),
            )
            for c in report.counts
        ),
    )
    sales = table(
        (
            *("product", "stock before", "+ restocked", "- left", "- held", "= sold"),
            *("orders", "answered", "from baskets", "answered", ""),
        ),
        ((s.product, *map(grouped, s.numbers), _mark(s.ok)) for s in report.sales),
    )
    parts = (
        _compared("views by post, country and day", report.by_country),
        _compared("ranks of posts by week", report.by_week),
        _compared("different visitors of pages", report.visitors),
        _compared("people who like a post", report.by_person),
        _flow(report),
        *_baskets(report),
        *_chaos(report),
        *_drifts(report),
        *_failures(report),
    )
    return "\n\n".join(["", counts, sales, *parts, _verdict(report)])


def _compared(name: str, counts: Sequence[Count]) -> str:
    """What is wrong of some counts, and how many were compared."""
    asked = [count for count in counts if count.expected or count.counted]
    wrong = [
        f"  {count.counter}: counted {grouped(count.counted)}, expected {grouped(count.expected)} "
        + _mark(count.ok)
        for count in asked
        if not count.ok
    ]
    sums = sums_of(asked)
    line = (
        f"{name}: counted {grouped(sums['counted'])} in {len(asked)} rows, "
        f"expected {grouped(sums['sent'])}, {len(wrong)} rows wrong"
    )
    return "\n".join([line, *wrong])


def _sign(count: Count) -> str:
    if count.counted == count.expected:
        return "="
    return "≥" if count.ok else "≠"


def _flow(report: Report) -> str:
    race = f"\nthe same views in a plain column and here: {report.race}" if report.race else ""
    return f"views and visits: {report.flow}{race}"


def _baskets(report: Report) -> list[str]:
    told = ", ".join(f"{grouped(number)} {name}" for name, number in report.baskets.items())
    return [f"baskets: {told}"] if told else []


def _chaos(report: Report) -> list[str]:
    found = [f"incidents: {', '.join(report.incidents)}"] if report.incidents else []
    if report.kills:
        killed = ", ".join(f"{name} {times} times" for name, times in report.kills.items())
        found.insert(0, f"killed: {killed}")
    if report.turned_away:
        found.append(
            f"turned away: {grouped(report.turned_away)} requests, while Redis did not answer; "
            "nothing was counted for them"
        )
    if report.flow.unknown:
        found.append(
            f"unknown: {grouped(report.flow.unknown)}, which Redis was told and did not confirm; "
            "each of these may be counted or not, and nothing else"
        )
    return ["\n".join(found)] if found else []


def _mark(ok: bool) -> str:
    return "ok" if ok else "WRONG"


def _drifts(report: Report) -> list[str]:
    return ["\n".join(f"the app: {drift}" for drift in report.drifts)] if report.drifts else []


def _failures(report: Report) -> list[str]:
    if not report.failed:
        return []
    shown = "\n".join(f"  {line}" for line in report.failures)
    return [f"{grouped(report.failed)} failures:\n{shown}"]


def _but(report: Report) -> str:
    more = sum(row.counted - row.expected for row in report.counts)
    return f" and {grouped(more)} of the unknown" if more else ""


def _verdict(report: Report) -> str:
    rate = grouped(report.requests / report.seconds) if report.seconds else "0"
    result = (
        f"Every counter is exact: counted = expected{_but(report)}."
        if report.ok
        else f"FAILED: {report.wrong} counters are wrong, {report.failed} requests failed."
    )
    return (
        f"{grouped(report.requests)} requests in {report.seconds:.1f} s ({rate}/s), "
        f"{grouped(report.refused)} purchases refused, {grouped(report.sent_again)} orders and "
        f"{grouped(report.liked_again)} likes sent again, {grouped(report.taken_back)} taken back; "
        f"{grouped(report.generations)} "
        f"generations flushed, {grouped(report.folded)} rows and {grouped(report.entries)} entries "
        f"rolled up meanwhile. {result}"
    )
