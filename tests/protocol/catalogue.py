"""What is explored: plans that have to hold, and larger ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.protocol.plan import Plan


def _plan(line: str) -> Plan:
    """``name | increments | option option=value``, of the fields of `Plan`."""
    name, counters, rest = line.split(" | ")
    options: dict[str, Any] = {}
    for option in rest.split():
        word, _, value = option.partition("=")
        options[word] = int(value) if value.isdigit() else value or True
    return Plan(name, counters, **options)


_PARTS = Path(__file__).with_name("plans.txt").read_text(encoding="utf-8").split("\n\n")
PLANS, LARGE = (tuple(map(_plan, part.strip().split("\n")[1:])) for part in _PARTS)
