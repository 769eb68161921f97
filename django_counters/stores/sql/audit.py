"""Adjustments, written one after the other, each with a digest of the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import IntegrityError

from django_counters import clock
from django_counters.exceptions import RetryTransaction
from django_counters.stores.sql.chain import digest_of
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterAdjustment

# Rows of one statement.
_AT_ONCE = 500


class SqlAudit:
    """Appends adjustments. Those of two transactions wait for each other, regardless of the
    counter."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        self._rows = CounterAdjustment._base_manager.using(using)

    def alone(self) -> None:
        """Be the only one who adjusts until the transaction ends.

        Asked for before any counter is held, so that no two adjustments wait for each other.
        """
        self._session.run(self._session.dialect.audit.alone, (), writes=False)

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
