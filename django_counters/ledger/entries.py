"""Entries of the ledger, for callers that append them by the thousand."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django_counters.errors import (
    InvalidDelta,
    InvalidToken,
    TokenConflict,
    UnsupportedBounds,
    UnsupportedToken,
)
from django_counters.event import PLAIN, Event
from django_counters.ledger.deltas import deltas_of
from django_counters.ledger.strategy import DECLARED
from django_counters.registry import registry
from django_counters.tables.schema import COUNTERS
from django_counters.tokens import check_token, optional_token
from django_counters.types import UNBOUNDED, Appended, AppendedMany, Delta, check_delta, check_key
from django_counters.write.changes import Change, named
from django_counters.write.pipeline import change

_LEDGER = DECLARED.recipe()


def append(
    key: object,
    by: int,
    token: object,
    using: str | None,
    event: Event = PLAIN,
) -> Appended:
    """Append one entry, with any strategy of the namespace."""
    name = _unbounded(check_key(key))
    given = optional_token(token)
    result = change(Change(named(name, using, _LEDGER), by, token=given, event=event))
    if isinstance(result, Appended):
        return result
    # The token was used before the counter came into the ledger: the value of then is left out.
    return Appended(name, given.uuid if given else None, replayed=result.replayed)


def append_many(
    entries: Iterable[object],
    copy: bool,
    using: str | None,
    event: Event = PLAIN,
) -> AppendedMany:
    """Append many entries, all or none: pairs of key and delta, or with a token each."""
    plain: list[tuple[str, int]] = []
    tokened: dict[UUID, tuple[str, int]] = {}
    given = 0
    for entry in entries:
        given += 1
        key, by, token = _parts(entry)
        if token is None:
            plain.append((key, by))
        elif copy:
            raise UnsupportedToken(what="copy=True", reason="a COPY cannot skip what is there")
        elif tokened.setdefault(token, (key, by)) != (key, by):
            raise TokenConflict(token=str(token))
    # A token that occurs twice counts once.
    appended = _write(plain, tokened, copy, using or COUNTERS.writing(), event)
    return AppendedMany(appended, given - appended)


def _write(
    plain: list[tuple[str, int]],
    tokened: dict[UUID, tuple[str, int]],
    copy: bool,
    alias: str,
    event: Event,
) -> int:
    deltas = registry.kept(deltas_of, alias)
    with deltas.all_or_nothing():
        if plain and tokened:
            # All callers lock in this order, so no two of them wait for each other.
            deltas.open(sorted({key for key, _ in (*plain, *tokened.values())}))
        if plain:
            # First, because a measure that is made after its entries counts from a later moment.
            summed = _summed(plain, alias, event)
            (deltas.copy if copy else deltas.append_many)(plain)
            deltas.add_cells(summed)
        # Periods need to know which entries are new, so each of those is appended by itself.
        by_period = any(_has_cells(key, event) for key, _ in tokened.values())
        replayed = 0 if not tokened else None if by_period else deltas.append_many_once(tokened)
        if replayed is None:
            # Or some tokens were used before their counter was in the ledger.
            replayed = sum(
                append(key, by, token, alias, event).replayed
                for key, token, by in sorted(
                    (key, token, by) for token, (key, by) in tokened.items()
                )
            )
    return len(plain) + len(tokened) - replayed


def _has_cells(key: str, event: Event) -> bool:
    """Return whether an entry is counted by period, or refused because it can't be."""
    return registry.policy(key).measure is not None or event is not PLAIN


def _summed(entries: Iterable[tuple[str, int]], alias: str, event: Event) -> list[Delta]:
    """Return the changes of cells that belong to entries."""
    sums: dict[str, int] = {}
    for key, by in entries:
        if _has_cells(key, event):
            sums[key] = sums.get(key, 0) + by
    return [Change(named(key, alias, _LEDGER), by, event=event).delta for key, by in sums.items()]


def _parts(entry: object) -> tuple[str, int, UUID | None]:
    if not isinstance(entry, tuple) or not 2 <= len(entry) <= 3:
        raise InvalidDelta(delta=entry, reason="an entry is (key, delta) or (key, delta, token)")
    key, by = _unbounded(check_key(entry[0])), check_delta(entry[1])
    if len(entry) == 2 or entry[2] is None:
        return key, by, None
    token = check_token(entry[2]).uuid
    if token is None:
        reason = "many entries at once need UUIDv7 tokens; token_of() makes one of a text"
        raise InvalidToken(token=entry[2], reason=reason)
    return key, by, token


def _unbounded(key: str) -> str:
    """Refuse a counter with a floor, a ceiling or a quota, which an append can't keep."""
    policy = registry.policy(key)
    guarded = policy.measure is not None and policy.measure.guard is not None
    if policy.bounds != UNBOUNDED or guarded:
        raise UnsupportedBounds(key=key, strategy="ledger")
    return key
