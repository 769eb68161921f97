"""``manage.py counters adjust``, which adjusts counters from a file, and ``counters audit``."""

from __future__ import annotations

import csv
import getpass
import hashlib
import io
import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from django.utils.translation import gettext as _

from django_counters import errors, features, types
from django_counters.adjustments import STEP, cases
from django_counters.adjustments.audit import Anchor, verify_audit
from django_counters.adjustments.models import CASE_LENGTH
from django_counters.write.changes import Ref
from django_counters.write.records import is_whole, ref_of

_MOST_SHOWN = 20
_KNOWN = ("counter", "field", "to", "by")
# The options that are arguments of `adjust_many`.
_PASSED = ("reason", "approver", "allow_below_floor", "dry_run")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    add = parser.add_argument
    columns = _("a table with the columns counter, and to or by; and a column field for records")
    add("--from", dest="source", required=True, type=Path, metavar="FILE.csv", help=columns)
    add("--reason", required=True, help=_("the reason of each adjustment"))
    add("--case", help=_("the name of the case; default: the file and its digest"))
    add("--actor", help=_("who adjusts; default: the user of this machine"))
    add("--approver", help=_("the second person"))
    add("--field", default="", help=_("the counter of records: app.Model.name"))
    add("--allow-below-floor", action="store_true", help=_("let values end below their floor"))
    add("--dry-run", action="store_true", help=_("print the effect, change nothing"))
    add("--step", type=int, default=STEP, help=_("counters per transaction"))


def run(out: OutputWrapper, progress: cases.Progress | None, using: str, **options: Any) -> None:
    """Adjust the counters of the file.

    Raises:
        CommandError: the file is wrong, and nothing was changed; or some counters were refused.
    """
    how, amounts, case = _table(options["source"], options["field"], using)
    try:
        report = cases.adjust_many(
            amounts,
            how,
            **{name: options[name] for name in _PASSED},
            actor=options["actor"] or _user(),
            case=options["case"] or case,
            step=max(options["step"], 1),
            progress=progress,
        )
    except errors.CounterError as error:
        raise CommandError(str(error)) from error
    out.write(_as_json(report, using) if options["as_json"] else _as_text(report))
    if report.refused:
        shown = [f"{counter}: {why}" for counter, why in report.refused.items()]
        raise CommandError(f"{len(shown)} were refused: {'; '.join(shown[:_MOST_SHOWN])}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        raise CommandError("The user of this machine has no name. Pass --actor.") from None


def _as_json(report: cases.AdjustedMany, using: str) -> str:
    changes = [change._asdict() for change in report.changes]
    data = {
        "database": using,
        "case": report.case,
        "dry_run": report.dry_run,
        "adjusted": len(changes),
        "delta": report.delta,
        "done": report.done,
        "refused": report.refused,
        "changes": changes,
    }
    return json.dumps(data)


def _as_text(report: cases.AdjustedMany) -> str:
    shown = report.changes if report.dry_run else ()
    lines = [f"{change.counter}: {change.before} -> {change.after}" for change in shown]
    what = "would be adjusted" if report.dry_run else "adjusted"
    text = f"case {report.case}: {len(report.changes)} {what}, by {report.delta:+} together"
    text += f"; {report.done} were adjusted before" if report.done else ""
    return "\n".join([*lines, text])


def _table(source: Path, field: str, using: str) -> tuple[str, dict[Ref, int], str]:
    """Return ``to`` or ``by``, the numbers of a file by counter, and the name of its case."""
    try:
        content = source.read_bytes()
        lines = io.StringIO(content.decode("utf-8-sig"), newline="")
        reader = csv.DictReader(lines, strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"{source} can't be read: {error}") from error
    if not rows:
        raise CommandError(f"{source} has no rows below its header.")
    how = _how(source, list(reader.fieldnames or ()))
    amounts: dict[Ref, int] = {}
    for number, ref, amount in _read(source, rows, how, field, using):
        if ref in amounts:
            raise CommandError(f"{source}, line {number}: {ref.label} is in the file twice.")
        amounts[ref] = amount
    name = f"{source.name[: CASE_LENGTH - 13]} {hashlib.sha256(content).hexdigest()[:12]}"
    return how, amounts, name


def _how(source: Path, head: list[str]) -> str:
    """Return whether the numbers are new values, ``to``, or changes, ``by``."""
    strange = [name for name in head if name not in _KNOWN or head.count(name) > 1]
    amounts = [name for name in ("to", "by") if name in head]
    if strange or "counter" not in head or len(amounts) != 1:
        columns = ", ".join(head)
        raise CommandError(
            f"{source} needs the columns counter, to or by, and optionally field. It has {columns}."
        )
    return amounts[0]


def _read(
    source: Path, rows: list[tuple[int, dict[str, Any]]], how: str, field: str, using: str
) -> Iterator[tuple[int, Ref, int]]:
    check = types.check_delta if how == "by" else types.check_integer
    for number, row in rows:
        try:
            if None in row or None in row.values():
                raise ValueError("it has another number of cells than the header")
            ref = ref_of(row.get("field") or field, row["counter"], using)
            if not is_whole(ref):
                raise ValueError(f"{ref.owner} has decimal places: adjust it in Python")
            yield number, ref, check(_integer(row[how]))
        except (errors.CounterError, ValueError) as error:
            raise CommandError(f"{source}, line {number}: {error}") from error


def _integer(text: str) -> int:
    # Refuse spaces, underscores and digits of other scripts, which int() accepts.
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r} isn't an integer")
    return int(text)


def audit(using: str, anchor: Anchor | None = None) -> features.Done:
    """Compare all adjustments with their digests."""
    report = verify_audit(using, anchor=anchor)
    head = f"; head {report.head}" if report.head else ""
    kept = f"; compared with {report.kept}" if report.kept else ""
    text = f"{report.checked} adjustments checked{head}{kept}"
    shown = ", ".join(map(str, report.flaws[:_MOST_SHOWN]))
    problems = [f"{len(report.flaws)} findings: {shown}"] if shown else []
    return features.Done(text, {"database": using, **report.as_data()}, problems)
