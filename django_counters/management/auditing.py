"""``manage.py counters verify-audit``."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from django.utils.translation import gettext as _

from django_counters.upkeep.audit import Anchor, verify_audit

_MOST_SHOWN = 20


def add_arguments(parser: ArgumentParser) -> None:
    """The options of the sub-command."""
    parser.add_argument(
        "--anchor",
        type=_anchor,
        metavar="NUMBER:DIGEST",
        help=_("the head of an earlier run, kept elsewhere"),
    )


def run(out: OutputWrapper, using: str, *, anchor: Anchor | None, as_json: bool, **_: Any) -> None:
    """Print what was found; end with an error where an adjustment is not as it was."""
    report = verify_audit(using, anchor=anchor)
    if as_json:
        out.write(json.dumps({"database": using, **report.as_data()}))
    else:
        head = f"; head {report.head}" if report.head else ""
        kept = f"; compared with {report.kept}" if report.kept else ""
        out.write(f"{report.checked} adjustments checked{head}{kept}")
    if report.flaws:
        shown = ", ".join(str(flaw) for flaw in report.flaws[:_MOST_SHOWN])
        raise CommandError(f"{len(report.flaws)} places are not as they were: {shown}")


def _anchor(text: str) -> Anchor:
    try:
        return Anchor.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
