"""``manage.py counters doctor``: a verdict, and the findings that it is based on."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from django.utils.translation import gettext as _

from django_counters.features import Finding, Verdict
from django_counters.metrics.doctor import examine, verdict

# The findings that explain a verdict come first.
_FIRST = (Verdict.ACT, Verdict.WARN, Verdict.OK)
_NEEDS = {Verdict.ACT: "to act on", Verdict.WARN: "to know of"}


def add_arguments(parser: ArgumentParser) -> None:
    """The options of the sub-command."""
    parser.add_argument(
        "--all", action="store_true", dest="shows_all", help=_("also list what is as it should be")
    )
    parser.add_argument(
        "--fail", action="store_true", help=_("end with 1 where something has to be done")
    )


def run(
    out: OutputWrapper, using: str, *, shows_all: bool, fail: bool, as_json: bool, **_options: Any
) -> None:
    """Print the verdict and its reasons, or all findings as JSON."""
    found = sorted(examine(using), key=lambda one: _FIRST.index(one.verdict))
    first = _headline(found)
    if as_json:
        out.write(json.dumps([asdict(one) for one in found], default=str))
    else:
        shown = [one for one in found if shows_all or one.verdict is not Verdict.OK]
        out.write("\n".join((first, *map(_line, shown))))
    if fail and verdict(found) is Verdict.ACT:
        raise CommandError(first)


def _headline(found: list[Finding]) -> str:
    """The verdict, and how many findings it is based on."""
    said = verdict(found)
    if said is Verdict.OK:
        return said
    number = sum(one.verdict is said for one in found)
    findings = f"{number} finding" if number == 1 else f"{number} findings"
    return f"{said}: {findings} {_NEEDS[said]}"


def _line(one: Finding) -> str:
    parts = (one.verdict, one.subject, one.strategy, _pending(one), one.action)
    return " · ".join(filter(None, parts))


def _pending(one: Finding) -> str:
    if not one.rows:
        return ""
    if one.lag is None:
        return f"{one.rows} rows of {one.counters} counters wait"
    kept = f"up to {one.counters} counters in {one.rows} generations"
    return f"{kept} wait, for {one.lag:.0f} s at most"
