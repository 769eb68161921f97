"""Ways to break the protocol, in the processes of one scene only: the book has to notice each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

# How a script finds out which history the server has.
HISTORY = "'master_replid:(%x+)'"


def apply(name: str) -> None:
    """Break what ``name`` says; "" for nothing."""
    if name:
        MUTANTS[name](pytest.MonkeyPatch())


def _claim_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """Whoever has a generation adds it, whether or not somebody has added it before."""
    from django_counters.stores.sql.batches import SqlBatches

    original = SqlBatches.claim

    def claim(self: SqlBatches, batches: Sequence[Any]) -> set[str]:
        original(self, batches)
        return {batch.generation for batch in batches}

    patch.setattr(SqlBatches, "claim", claim)


def _acknowledged_first(patch: pytest.MonkeyPatch) -> None:
    """Generations are removed from Redis before they are committed in the database."""
    from django_counters.stores.redis.pending import RedisPending
    from django_counters.upkeep import flush

    original: Any = flush._land
    acknowledge = RedisPending.acknowledge

    def land(handed: Any, at: int, landing: Any, *rest: Any) -> None:
        commit = landing.commit

        def commit_last(part: Any, judgement: Any) -> Any:
            acknowledge(handed._pending, dict.fromkeys(part.held, ()))
            rest[-1]("acknowledge")
            return commit(part, judgement)

        landing.commit = commit_last
        original(handed, at, landing, *rest)
        del landing.commit

    patch.setattr(flush, "_land", land)


def _one_history(patch: pytest.MonkeyPatch) -> None:
    """A server that comes back with older data is taken for the one that it was."""
    from django_counters.stores.redis import scripts

    known = [one for one in vars(scripts).values() if isinstance(one, scripts.Script)]
    broken = [one for one in known if HISTORY in one.text]
    assert broken, "no script asks for the history"
    for script in broken:
        object.__setattr__(script, "text", script.text.replace(HISTORY, "'(master_replid):'"))
        script.__post_init__()


MUTANTS: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the claim is ignored": _claim_is_ignored,
    "acknowledged before it is applied": _acknowledged_first,
    "every history is the present one": _one_history,
}
