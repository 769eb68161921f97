"""Counts an access log with many processes at once, into named counters."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from django.core.management import call_command
from django.db import transaction

from django_counters import short_key
from django_counters.models import Counter
from example_project import seeds, streamed
from example_project.counting import EVERY_TIME, Counted, Way, count_file
from example_project.flow import grouped
from example_project.named import named_counters
from example_project.once import once
from example_project.recount import Recount, recount
from example_project.run import STREAM_WAYS, TOKENS_WAY
from example_project.screen import say, table
from example_project.settling import settle

NAMESPACES = ("page", "status", "hour")
# How often these counters were started at zero: tokens of before that are forgotten.
FRESH_STARTS = "replay:fresh-starts"
PAGES_SHOWN = 15


class Unsettled(Exception):
    """What was counted has not landed, so there is no result."""


class Unreadable(Exception):
    """The file cannot be read."""


def main(options: Namespace) -> int:
    """Replay a file, print what is in the database, and return 0, or 1 if --verify differs."""
    path: Path = options.file
    _check(path)
    through_stream = options.way in STREAM_WAYS
    prepare(fresh=options.fresh, through_stream=through_stream)
    before = named_counters(*NAMESPACES)
    counted = count_file(path, options.workers, _way(options.way), _progress())
    if through_stream:
        streamed.consume()
    _settle()
    after = named_counters(*NAMESPACES)
    totals = unshortened(after, counted.shortened)
    _print(counted, totals, options)
    return _verified(differences(counted, before, after, recount(path))) if options.verify else 0


def _way(name: str) -> Way:
    if name == TOKENS_WAY:
        return once(f"replay-{Counter.objects.value(FRESH_STARTS)}")
    return streamed.PUBLISHED if name in STREAM_WAYS else EVERY_TIME


def _settle() -> None:
    problems = settle()
    if problems:
        raise Unsettled("; ".join(problems))


def _verified(problems: list[str]) -> int:
    for problem in problems[:20]:
        say(f"differs: {problem}")
    say(f"verify: {f'{len(problems)} differences' if problems else 'the recount agrees'}")
    return 1 if problems else 0


def _check(path: Path) -> None:
    if not path.is_file():
        what = "is not a regular file" if path.exists() else "does not exist"
        raise Unreadable(f"{path} {what}")
    if not os.access(path, os.R_OK):
        raise Unreadable(f"{path} may not be read")


def prepare(*, fresh: bool, through_stream: bool = False) -> None:
    """Bring the database up to date; ``fresh`` takes the counters of earlier replays away.

    Raises:
        NotOurs: ``fresh``, in a database that the example did not set up.
    """
    if fresh:
        seeds.refuse_foreign_database()
    call_command("migrate", verbosity=0, interactive=False)
    # What an earlier replay has left in Redis is counted, or taken away with the rest.
    if through_stream:
        streamed.through().begin()
    _settle()
    if fresh:
        with transaction.atomic():
            removed = seeds.clear_counters(*NAMESPACES)
            Counter.objects.increment(FRESH_STARTS)
        say(f"--fresh: removed {removed}")


def unshortened(totals: Mapping[str, int], shortened: Mapping[str, str]) -> dict[str, int]:
    """The totals under their full texts, where these were seen in this run."""
    full_of = {key: full for full, key in shortened.items()}
    return {full_of.get(key, key): value for key, value in totals.items()}


def differences(
    counted: Counted, before: Mapping[str, int], after: Mapping[str, int], again: Recount
) -> list[str]:
    """Where this run and a recount differ, in words; what was there before does not matter."""
    expected = {short_key(full): number for full, number in again.totals.items()}
    added = {key: after.get(key, 0) - before.get(key, 0) for key in {*before, *after, *expected}}
    found = [
        f"{key}: {added[key]} added, {expected.get(key, 0)} in the recount"
        for key in sorted(added)
        if not _agrees(added[key], expected.get(key, 0), after.get(key, 0), counted.replayed)
    ]
    if counted.replayed:
        found += _sums_that_differ(added, counted.counted)
    if counted.lines != again.lines:
        found.append(f"lines: {counted.lines} read, {again.lines} in the recount")
    if counted.malformed != again.malformed:
        found.append(f"malformed lines: {counted.malformed}, {again.malformed} in the recount")
    return found


def _agrees(added: int, expected: int, after: int, replayed: int) -> bool:
    """Whether one counter is right. Which lines were replayed, the recount does not know."""
    return 0 <= added <= expected <= after if replayed else added == expected


def _sums_that_differ(added: Mapping[str, int], counted: int) -> list[str]:
    """Each line that was counted has added one to each namespace, and no other line has."""
    sums = {
        name: sum(number for key, number in added.items() if key.startswith(f"{name}:"))
        for name in NAMESPACES
    }
    return [f"{n}: {s} added, {counted} lines counted" for n, s in sums.items() if s != counted]


def _progress() -> Callable[[float], None]:
    if not sys.stderr.isatty():
        return lambda _: None
    done: list[float] = []

    def show(share: float) -> None:
        done.append(share)
        end = "\n" if sum(done) > 0.9999 else ""
        print(f"\r{sum(done):4.0%} counted", end=end, file=sys.stderr, flush=True)

    return show


def _print(counted: Counted, totals: Mapping[str, int], options: Namespace) -> None:
    if options.json:
        result = {
            "lines": counted.lines,
            "counted": counted.counted,
            **({"replayed": counted.replayed} if options.way == TOKENS_WAY else {}),
            "malformed": counted.malformed,
            "totals": dict(sorted(totals.items())),
            "shortened": dict(sorted(counted.shortened.items())),
        }
        print(json.dumps(result, indent=2), flush=True)
        return
    tokens = options.way == TOKENS_WAY
    replayed = f"{grouped(counted.replayed)} replayed, " if tokens else ""
    print(
        f"{grouped(counted.lines)} lines: {grouped(counted.counted)} counted, {replayed}"
        f"{grouped(counted.malformed)} malformed. In the database now:"
    )
    for name in NAMESPACES:
        print(f"\n{_top(name, totals)}", flush=True)


def _top(name: str, totals: Mapping[str, int]) -> str:
    rows = [(key, value) for key, value in totals.items() if key.startswith(f"{name}:")]
    if name == "page":
        rows = sorted(rows, key=lambda row: (-row[1], row[0]))[:PAGES_SHOWN]
    return table((name, "count"), ((_printable(key), grouped(value)) for key, value in rows))


def _printable(key: str) -> str:
    shown = key.partition(":")[2]
    return shown.encode(sys.stdout.encoding or "ascii", "backslashreplace").decode(
        sys.stdout.encoding or "ascii"
    )
