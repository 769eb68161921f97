"""Whether values of the ledger are sums of their entries, and other sums what they should be."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db import DEFAULT_DB_ALIAS
from django.db.models.functions import Left

from django_counters.features import Drift
from django_counters.ledger.inquiry import SqlInquiry
from django_counters.ledger.upkeep import compare
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterIncident
from django_counters.tables.core import COUNTERS
from django_counters.upkeep.hooks import attempted


@dataclass
class VerifyReport:
    """The findings of `verify`.

    Attributes:
        checked: how many counters were looked at.
        partitions: how many sealed partitions were counted again, as a whole.
        drifts: counters whose total is not the sum of their entries. Partitions whose entries have
            changed since they were sealed. Drifts of apps.
        failed: apps that couldn't compare theirs, and the error of each.
    """

    checked: int = 0
    partitions: int = 0
    drifts: list[Drift] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def verify(
    using: str = DEFAULT_DB_ALIAS,
    *,
    namespace: str | None = None,
    sample: int | None = None,
) -> VerifyReport:
    """Compare the totals of the ledger with its entries: archive + retained = total + tail.

    A deleted total is a difference even if all of its entries are pending.

    Counts from before the ledger, or by another strategy, are known and left out. Each difference
    becomes an incident; nothing is repaired. All counters are compared in one statement, so
    concurrent increments do no harm; sealed partitions are compared with the archive, one by one.

    Args:
        using: the database.
        namespace: only the counters of a namespace.
        sample: only so many counters, drawn again each time.
    """
    prefix = f"{namespace}:" if namespace else ""
    lacks = dialect_of(using).lacks
    report, keys = VerifyReport(), None if sample is None else list[str]()
    if "ledger" not in lacks:
        keys = None if sample is None else SqlInquiry(NAMED, using).sample(prefix, sample)
        report.partitions, report.drifts = compare(using, prefix, keys)
    known = COUNTERS.rows(using).filter(outside__isnull=False)
    if prefix:
        # Not "startswith", for which SQLite takes A for a.
        known = known.annotate(head=Left("key", len(prefix))).filter(head=prefix)
    report.checked = known.count() if keys is None else len(keys)
    if keys is None:
        for drifts in attempted(using, lambda feature: [*feature.drifts(using)], report.failed):
            report.drifts += (drift for drift in drifts if drift.key.startswith(prefix))
    for drift in report.drifts:
        detail = {"expected": drift.expected, "actual": drift.actual}
        record(CounterIncident.Kind.DRIFT, drift.key, detail, using)
    return report
