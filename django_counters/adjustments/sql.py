"""Writes and reads adjustments: each has a digest of itself and of the previous one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import Any

from django.db import IntegrityError

from django_counters import clock, errors
from django_counters.adjustments.models import CounterAdjustment
from django_counters.adjustments.statements import audit_of
from django_counters.stores.sql.session import Session

# Rows of one statement.
_AT_ONCE = 500


class SqlAudit:
    """Appends adjustments. Transactions that append wait for each other, for any counters."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._alone = audit_of(using).alone
        self._rows = CounterAdjustment._base_manager.using(using)

    def alone(self) -> None:
        """Keep other adjustments out until the transaction ends.

        Call it before any counter is locked, so that two adjustments can't deadlock.
        """
        self._session.run(self._alone, (), writes=False)

    def write(self, adjustments: Iterable[Mapping[str, Any]]) -> list[CounterAdjustment]:
        """Append adjustments in their order, in a transaction after `alone`.

        Raises:
            RetryTransaction: the transaction doesn't see the last adjustment.
        """
        rows = list(self._chained(adjustments))
        try:
            # save() refuses, so this is the only way to insert.
            self._rows.bulk_create(rows, batch_size=_AT_ONCE)
        except IntegrityError as error:
            if self._session.dialect.refused_by(error) is not None:
                raise
            raise errors.RetryTransaction(what="the adjustment") from error
        return rows

    def _chained(self, adjustments: Iterable[Mapping[str, Any]]) -> Iterator[CounterAdjustment]:
        """Yield the adjustments with their numbers and digests."""
        last = self._rows.order_by("-number").values_list("number", "digest").first()
        before, digest = last or (0, "")
        for number, columns in enumerate(adjustments, before + 1):
            now = clock.now()
            # A JSON dump keeps milliseconds, and the digest must match after loaddata.
            now = now.replace(microsecond=now.microsecond // 1000 * 1000)
            row = CounterAdjustment(number=number, created_at=now, **columns)
            digest = row.digest = digest_of(digest, row)
            yield row

    def number(self, number: int) -> CounterAdjustment:
        """Return the adjustment with a number."""
        return self._rows.get(number=number)

    def last_of(self, field: str, key: str) -> int:
        """Return the number of a counter's last adjustment; zero for none."""
        rows = self._rows.filter(field=field, key=key).order_by("-number")
        return rows.values_list("number", flat=True).first() or 0

    def of_case(
        self, case: str, counters: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], CounterAdjustment]:
        """Return the first adjustment of each counter for a case, by field and key."""
        wanted = set(counters)
        fields, keys = {field for field, _ in wanted}, {key for _, key in wanted}
        rows = self._rows.filter(case=case, field__in=fields, key__in=keys).order_by("-number")
        firsts = {(row.field, row.key): row for row in rows}
        return {counter: row for counter, row in firsts.items() if counter in wanted}


# Part of every digest. Change it with the list of columns or their format.
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
        before: the digest of the previous adjustment; empty for the first.
        row: the adjustment. Its own digest is ignored.
    """
    moment = clock.meant(row.created_at).astimezone(UTC)
    whole: dict[str, Any] = {name: int(getattr(row, name)) for name in INTEGERS}
    whole |= {name: str(getattr(row, name)) for name in TEXTS}
    whole["entry"] = None if row.entry is None else str(row.entry)
    whole["created_at"] = moment.isoformat(timespec="microseconds")
    # Only ASCII, so that a text has one spelling.
    text = json.dumps([VERSION, before, whole], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def holds(before: str, row: CounterAdjustment) -> bool:
    """Return whether an adjustment matches its digest."""
    if digest_of(before, row) == row.digest:
        return True
    if row.created_at.tzinfo is not None:
        return False
    # A naive moment can mean two instants, an hour apart, and the column doesn't store which.
    row.created_at = row.created_at.replace(fold=1 - row.created_at.fold)
    return digest_of(before, row) == row.digest
