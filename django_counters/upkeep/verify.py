"""Whether values of the ledger are sums of their entries, and other sums what they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import DEFAULT_DB_ALIAS
from django.db.models.functions import Left

from django_counters import clock
from django_counters.features import Drift
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.dialects.ledger import Extent
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.inquiry import SqlInquiry
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterIncident
from django_counters.tables.standing import COUNTERS
from django_counters.upkeep.actors import counting_actors, differing
from django_counters.upkeep.hooks import attempted


@dataclass
class VerifyReport:
    """The findings of `verify`.

    Attributes:
        checked: how many counters were looked at.
        partitions: how many sealed partitions were counted again, as a whole.
        drifts: counters whose total is not the sum of their entries. Partitions whose entries have
            changed since they were sealed. Counters of actors (``once=True``) whose value is not
            the number of their rows of actors. Drifts of other apps.
        measures: how many namespaces and fields were looked at whose counters count actors.
        failed: apps that couldn't compare theirs, and the error of each.
    """

    checked: int = 0
    partitions: int = 0
    measures: int = 0
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
    increments that go on do no harm; sealed partitions are compared with the archive, one by one.
    So are counters of a namespace or field that counts actors: value = rows.

    Args:
        using: the database.
        namespace: only the counters of a namespace.
        sample: only so many counters, drawn anew each time.
    """
    inquiry = SqlInquiry(NAMED, using)
    prefix = f"{namespace}:" if namespace else ""
    lacks = dialect_of(using).lacks
    keys = None if sample is None else [] if "ledger" in lacks else inquiry.sample(prefix, sample)
    report = VerifyReport()
    if "ledger" not in lacks:
        astray = _recount(using, report, prefix, keys)
        report.drifts[:0] = inquiry.drift(prefix, keys, astray)
    known = COUNTERS.rows(using).filter(outside__isnull=False)
    if prefix:
        # Not "startswith", for which SQLite takes A for a.
        known = known.annotate(head=Left("key", len(prefix))).filter(head=prefix)
    report.checked = known.count() if keys is None else len(keys)
    if keys is None:
        places = [] if "conditions" in lacks else list(counting_actors(using, namespace))
        report.measures = len(places)
        report.drifts += (drift for place in places for drift in differing(place, using))
        for drifts in attempted(using, lambda feature: [*feature.drifts(using)], report.failed):
            report.drifts += (drift for drift in drifts if drift.key.startswith(prefix))
    for drift in report.drifts:
        detail = {"expected": drift.expected, "actual": drift.actual}
        record(CounterIncident.Kind.DRIFT, drift.key, detail, using)
    return report


def _recount(
    using: str, report: VerifyReport, prefix: str, keys: Sequence[str] | None
) -> Mapping[str, int]:
    """Whether sealed partitions have what they had; how much more some counters have in them.

    Each is looked at by a statement of its own, as nothing changes them: all at once would need the
    locks of all partitions.
    """
    store, inquiry = SqlPartitions(using), SqlInquiry(NAMED, using)
    whole = keys is None and not prefix
    astray: dict[str, int] = {}
    for name, sealed in store.sealed().items():
        extent = Extent(name, clock.meant(sealed.since), clock.meant(sealed.until))
        found = inquiry.recount(extent, prefix, keys)
        report.partitions += whole
        differs = whole and found[:2] != (sealed.entries, int(sealed.delta_sum))
        # It may just have been dropped.
        if (differs or found.astray) and name in SqlPartitions(using).sealed():
            for key, more in found.astray.items():
                astray[key] = astray.get(key, 0) + more
            if differs:
                report.drifts.append(Drift(name, int(sealed.delta_sum), found.delta_sum))
    return astray
