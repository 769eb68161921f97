"""The option ``once``: how often an actor counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django_counters.options import Option, Projection, length_of

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities
    from django_counters.types import Bounds

REASON = "it counts once for each actor"
_LONGEST = timedelta(days=3_650)


def _parts(once: object, **_: object) -> dict[str, Any]:
    from django_counters.contrib.likes.condition import OncePerActor

    time = length_of(once)
    return {"condition": OncePerActor(time, REASON)} if once is True or time is not None else {}


def _problems(once: object, **_: object) -> Iterator[str]:
    time = length_of(once)
    if once is None or once is True or (time is not None and time <= _LONGEST):
        return
    expected = "True, None, or a time of at most ten years such as '30m' or '24h'"
    yield f"once is {expected}, not {once!r}."


def _against(
    once: object, can: Capabilities, bounds: Bounds, ceiling: object = None, **_: object
) -> Iterator[str]:
    """Say what goes together with no strategy, or with no bound, that is declared beside it."""
    if once is None:
        return
    if can.outside:
        yield "once is not for cached counters: Redis cannot promise it. exact and sharded can."
    elif can.entries:
        yield (
            "once is not for a ledger: it would keep each change twice, as an entry and as the row "
            "of an actor. exact and sharded can."
        )
    if bounds.floor not in (None, 0):
        yield f"once with a floor of {bounds.floor} makes no sense: it counts from 0 up, and back."
    if isinstance(ceiling, Mapping):
        yield "a ceiling of a period is not for counters that count once for each actor."


ONCE = Projection(
    name="likes",
    options=(
        Option(
            "once",
            None,
            "True, or a time such as `'30m'` or `'24h'`; or None",
            "How often an actor counts: [once, until it is taken back](../likes.md), or not again "
            "for a time. None: as often as they like. Not with `'cached'` and `'ledger'`.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E031",
    in_fields="E032",
    against=_against,
    spread="no database knows whom the others have counted",
    irreversible=REASON,
)
