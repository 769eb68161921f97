"""The options of holds in namespaces and fields: their limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django_counters.options import Option, Projection, is_integer

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities

# A hold never lasts longer.
MOST_MINUTES = 60 * 24 * 30


def can_hold(can: Capabilities) -> bool:
    """Return whether a strategy can promise a quantity: others see each change at once."""
    return can.in_place and can.floors


def _is_quantity(value: object) -> bool:
    return value is None or is_integer(value, 1)


LIMITS = (
    Option(
        "held_per_actor",
        None,
        "None or an integer from 1 on",
        "How much of one counter one actor may [hold](../holds.md#hold-limits) at "
        "once. Each hold then needs `who`. None: any quantity.",
        _is_quantity,
    ),
    Option(
        "held_in_total",
        None,
        "None or an integer from 1 on",
        "How much of one counter all actors together may hold at once. None: any quantity.",
        _is_quantity,
    ),
    Option(
        "hold_minutes",
        MOST_MINUTES,
        f"an integer from 1 to {MOST_MINUTES}",
        "A hold's longest duration in minutes, extensions included.",
        lambda value: is_integer(value, 1, MOST_MINUTES),
    ),
)


def _problems(**options: object) -> Iterator[str]:
    for limit in LIMITS:
        yield from limit.problems(options[limit.name])


def _against(
    *,
    strategy: str,
    can: Capabilities,
    bounds: object,  # noqa: ARG001
    **options: object,
) -> Iterator[str]:
    limits = ", ".join(o.name for o in LIMITS if options[o.name] != o.default)
    if not limits:
        return
    from django_counters.conf import irreversible

    if not can_hold(can):
        yield f"{limits}: {strategy} counters can't be held, exact can."
    elif reason := irreversible(options):
        yield f"{limits}: the counter can't be held, because {reason}. Hold another counter."


OPTIONS = Projection(
    name="holds",
    options=LIMITS,
    problems=_problems,
    make=lambda **_: {},
    in_namespaces="E008",
    in_fields="E020",
    against=_against,
    merges=True,
    spread="each database sees other databases' counts too late",
)
