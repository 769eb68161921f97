"""Adjustments in the database: each carries a digest of itself and of the one before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any

from django.db import IntegrityError

from django_counters import clock
from django_counters.adjustments.models import CounterAdjustment
from django_counters.adjustments.statements import audit_of
from django_counters.exceptions import RetryTransaction
from django_counters.stores.sql.session import Session

# Rows of one statement.
_AT_ONCE = 500


class SqlAudit:
    """Appends adjustments. Those of two transactions wait for each other, regardless of the
    counter."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._alone = audit_of(using).alone
        self._rows = CounterAdjustment._base_manager.using(using)

    def alone(self) -> None:
        """Be the only one who adjusts until the transaction ends.

        Asked for before any counter is held, so that no two adjustments wait for each other.
        """
        self._session.run(self._alone, (), writes=False)

    def write(self, adjustments: Iterable[Mapping[str, Any]]) -> list[CounterAdjustment]:
        """Append adjustments in one order, within the transaction that is alone.

        Raises:
            RetryTransaction: the transaction does not see the last one.
        """
        rows = list(self._chained(adjustments))
        try:
            # The only way past save(), which refuses.
            self._rows.bulk_create(rows, batch_size=_AT_ONCE)
        except IntegrityError as error:
            if self._session.dialect.refused_by(error) is not None:
                raise
            raise RetryTransaction(what="the adjustment") from error
        return rows

    def _chained(self, adjustments: Iterable[Mapping[str, Any]]) -> Iterator[CounterAdjustment]:
        """Each with the number and the digest after the one before."""
        last = self._rows.order_by("-number").values_list("number", "digest").first()
        before, digest = last or (0, "")
        for number, columns in enumerate(adjustments, before + 1):
            now = clock.now()
            # A dump as JSON keeps milliseconds, and the digest has to be right where it is loaded.
            now = now.replace(microsecond=now.microsecond // 1000 * 1000)
            row = CounterAdjustment(number=number, created_at=now, **columns)
            digest = row.digest = digest_of(digest, row)
            yield row

    def number(self, number: int) -> CounterAdjustment:
        """One adjustment."""
        return self._rows.get(number=number)

    def last_of(self, field: str, key: str) -> int:
        """The number of the last one of a counter; zero where there is none."""
        found = self._rows.filter(field=field, key=key).order_by("-number")
        return found.values_list("number", flat=True).first() or 0

    def of_case(
        self, case: str, counters: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], CounterAdjustment]:
        """Those of a case among some counters, by field and key; the first one of each."""
        wanted = set(counters)
        fields, keys = {field for field, _ in wanted}, {key for _, key in wanted}
        rows = self._rows.filter(case=case, field__in=fields, key__in=keys).order_by("-number")
        found = {(row.field, row.key): row for row in rows}
        return {counter: row for counter, row in found.items() if counter in wanted}


# Part of every digest. Another list of columns, or another form of them, is another version.
VERSION = 1
INTEGERS = ("number", "before", "after", "delta")
TEXTS = (
    "field",
    "key",
    "reason",
    "case",
    "actor_id",
    "actor_name",
    "approver_id",
    "approver_name",
    "request_id",
)


def digest_of(before: str, row: CounterAdjustment) -> str:
    """Compute the digest of an adjustment: 64 hex digits.

    Args:
        before: the digest of the adjustment with the number before; empty for the first.
        row: the adjustment. Its own digest is not looked at.
    """
    moment = clock.meant(row.created_at).astimezone(UTC)
    whole: dict[str, Any] = {name: int(getattr(row, name)) for name in INTEGERS}
    whole |= {name: str(getattr(row, name)) for name in TEXTS}
    whole["entry"] = None if row.entry is None else str(row.entry)
    whole["created_at"] = moment.isoformat(timespec="microseconds")
    # ASCII alone: no two ways to write the same text.
    text = json.dumps([VERSION, before, whole], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def holds(before: str, row: CounterAdjustment) -> bool:
    """Whether the digest of an adjustment is the right one."""
    if digest_of(before, row) == row.digest:
        return True
    if row.created_at.tzinfo is not None:
        return False
    # A naive moment may be one of two, an hour apart, and is stored without saying which.
    row.created_at = row.created_at.replace(fold=1 - row.created_at.fold)
    return digest_of(before, row) == row.digest
