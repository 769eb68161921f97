"""Verify that every adjustment exists and is unchanged."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Exists, Max, OuterRef

from django_counters import clock, errors, tokens
from django_counters.access import AUDITED
from django_counters.adjustments.models import AdjustmentRequest, CounterAdjustment
from django_counters.adjustments.sql import holds
from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterIncident, schema
from django_counters.write import pipeline

logger = logging.getLogger("django_counters")

PAGE = 1000
MISSING = "missing"
CHANGED = "changed"
UNBALANCED = "after is not before and change"
UNEXPECTED = "a number out of sequence"
REPLACED = "differs from the anchor"


class Anchor(NamedTuple):
    """The number and digest of an adjustment, kept where an attacker can't alter them."""

    number: int
    digest: str

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Read ``NUMBER:DIGEST``.

        Raises:
            ValueError: the text has another form.
        """
        match = re.fullmatch(r"([1-9][0-9]{0,18}):([0-9a-f]{64})", text.strip(), re.ASCII)
        if match is None:
            raise ValueError(f"{text!r} isn't an anchor. Pass NUMBER:DIGEST, with 64 hex digits")
        return cls(int(match[1]), match[2])

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


class Flaw(NamedTuple):
    """A range of altered or missing adjustments: the first number, the last one, the problem."""

    first: int
    last: int
    problem: str

    def __str__(self) -> str:
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        return f"{numbers}: {self.problem}"


@dataclass
class AuditReport:
    """The findings of `verify_audit`.

    Attributes:
        checked: the number of adjustments that were read.
        head: the last of them, for use as an anchor; None if there are no adjustments.
        kept: the head of the last run without a flaw, which this run was also compared with.
        flaws: altered or missing adjustments, in the order of their numbers.
    """

    checked: int = 0
    head: Anchor | None = None
    kept: Anchor | None = None
    flaws: list[Flaw] = field(default_factory=list)

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data: numbers, texts and lists."""
        return {
            "checked": self.checked,
            "head": None if self.head is None else str(self.head),
            "kept": None if self.kept is None else str(self.kept),
            "flaws": [flaw._asdict() for flaw in self.flaws],
        }


def verify_audit(using: str = DEFAULT_DB_ALIAS, *, anchor: Anchor | None = None) -> AuditReport:
    """Compare every adjustment with its digest and with the previous one; return a report.

    Also compares with the head of the last run without a flaw, which a counter keeps, with the
    adjustments that requests name, and with corrections in the ledger. An altered or missing row
    becomes an incident; nothing is repaired. Holds no locks, so adjustments can go on. Logs the
    head.

    Args:
        using: the database.
        anchor: the head of an earlier report, kept elsewhere. Without it, an attacker who also
            alters the head here can cut off the last adjustments or rewrite all of them.
    """
    # Before the walk, so that concurrent adjustments don't look like flaws.
    kept = _kept_head(using)
    requests = AdjustmentRequest._base_manager.using(using)
    led_to = int(requests.aggregate(last=Max("adjustment"))["last"] or 0)
    walk = _Walk([known for known in (anchor, kept) if known is not None])
    for row in _rows(using):
        walk.take(row)
    walk.finish(led_to, unexplained(walk.since, using))
    report = walk.report
    report.kept = kept
    if report.head is not None and not report.flaws:
        _keep(*report.head, using)
    for flaw in report.flaws:
        detail = {"first": flaw.first, "last": flaw.last, "problem": flaw.problem}
        record(CounterIncident.Kind.AUDIT, f"adjustment {flaw.first}", detail, using)
    logger.info("Adjustments of %s: %s checked, head %s", using, report.checked, report.head)
    return report


def _rows(using: str) -> Iterator[CounterAdjustment]:
    """Yield all adjustments in the order of their numbers, with one page in memory."""
    ordered = CounterAdjustment._base_manager.using(using).order_by("number")
    page = list(ordered[:PAGE])
    while page:
        yield from page
        page = list(ordered.filter(number__gt=page[-1].number)[:PAGE])


class _Walk:
    """From the first adjustment to the last."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self.report = AuditReport()
        self._anchors = anchors
        self._due = 1
        # The digest of the previous adjustment; None if that is missing.
        self._before: str | None = ""
        # The time of the last adjustment; for a ledger, by the database's clock.
        self.since: datetime | None = None

    def take(self, row: CounterAdjustment) -> None:
        self.report.checked += 1
        if row.number > self._due:
            self._blame(self._due, row.number - 1, MISSING)
            self._before = None
        problem = self._problem(row)
        if problem:
            self._blame(row.number, row.number, problem)
        self.since = clock.shown(tokens.moment_of(row.entry)) if row.entry else row.created_at
        if row.number >= self._due:
            self._due, self._before = row.number + 1, row.digest
            self.report.head = Anchor(row.number, row.digest)

    def finish(self, led_to: int, unexplained: int) -> None:
        last = max(
            (led_to, self._due - 1 + unexplained, *(anchor.number for anchor in self._anchors))
        )
        if last >= self._due:
            self._blame(self._due, last, MISSING)

    def _problem(self, row: CounterAdjustment) -> str:
        if row.number < self._due:
            return UNEXPECTED
        # After a gap there is no digest to compare with: the gap is the finding.
        if self._before is not None and not holds(self._before, row):
            return CHANGED
        if row.after != row.before + row.delta:
            return UNBALANCED
        if any(row.number == number and row.digest != digest for number, digest in self._anchors):
            return REPLACED
        return ""

    def _blame(self, first: int, last: int, problem: str) -> None:
        """Add a flaw, or extend the previous one."""
        flaws = self.report.flaws
        if flaws and flaws[-1].problem == problem and flaws[-1].last == first - 1:
            first = flaws.pop().first
        flaws.append(Flaw(first, last, problem))


# The key of the counter that keeps the head of the last run without a flaw.
_NAMED = f"{AUDITED}:"


def _kept_head(using: str) -> Anchor | None:
    """Return the last verified adjustment; None for none."""
    kept = schema.COUNTERS.rows(using).filter(key__startswith=_NAMED).order_by("-value")
    row = kept.values_list("value", "key").first()
    return row and Anchor(int(row[0]), str(row[1]).removeprefix(_NAMED))


def _keep(number: int, digest: str, using: str) -> None:
    """Keep a head: a counter whose value is the number, and whose name has the digest.

    Doesn't replace a head with a higher number, which a concurrent run may have kept.
    """
    if (known := _kept_head(using)) and known.number >= number:
        return
    try:
        with pipeline.all_or_nothing(using):
            kept = schema.COUNTERS.rows(using)
            kept.get_or_create(key=f"{_NAMED}{digest}", defaults={"value": number})
            kept.filter(key__startswith=_NAMED, value__lt=number).delete()
    except errors.ReadOnlyDatabase:
        logger.warning("Adjustments of %s: it is read-only, so the head is not kept.", using)


def unexplained(since: datetime | None, using: str) -> int:
    """Return the number of corrections in the ledger without an adjustment.

    Args:
        since: the time of the last adjustment. Adjustments are made one after the other, so earlier
            entries need no check. None checks all entries.
        using: the database.
    """
    entries = schema.ENTRIES.rows(using).filter(kind=schema.DeltaColumns.Kind.ADJUSTMENT)
    if since is not None:
        entries = entries.filter(created_at__gte=since)
    known = CounterAdjustment._base_manager.using(using).filter(entry=OuterRef("token"))
    return entries.filter(~Exists(known)).count()
