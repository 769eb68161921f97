"""Whether values of the ledger are sums of their entries, and other sums what they should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Count, Sum
from django.db.models.functions import Left

from django_counters.read.stock import stock_of
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.inquiry import Drift, SqlInquiry
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterIncident
from django_counters.tables.standing import COUNTERS, ENTRIES
from django_counters.upkeep.actors import counting_actors, differing
from django_counters.upkeep.holds import forgotten
from django_counters.write.records import labelled


@dataclass
class Report:
    """The findings of `verify`.

    Attributes:
        checked: how many counters were looked at.
        partitions: how many sealed partitions were counted again.
        drifts: counters whose total is not the sum of their entries. Partitions whose entries have
            changed since they were sealed. Counters of actors (``once=True``) whose value is not
            the number of their rows of actors. Counters with a hold an hour beyond its time, as
            upkeep does not run. Stocks whose available, held and sold units are not as many as the
            caller says.
        measures: how many namespaces and fields were looked at whose counters count actors.
        stocks: how many stocks were compared with the caller's figures.
    """

    checked: int = 0
    partitions: int = 0
    measures: int = 0
    stocks: int = 0
    drifts: list[Drift] = field(default_factory=list)


def verify(
    using: str = DEFAULT_DB_ALIAS,
    *,
    namespace: str | None = None,
    sample: int | None = None,
    stocks: Mapping[str, int] | None = None,
) -> Report:
    """Compare the totals of the ledger with its entries: archive + retained = total + tail.

    Counts from before the ledger, or by another strategy, are known and left out. Each difference
    becomes an incident; nothing is repaired. All counters are compared in one statement, so
    increments that go on do no harm. So are those of a namespace or field that counts actors: value
    = rows.

    Args:
        using: the database.
        namespace: only the counters of a namespace.
        sample: only so many counters, drawn anew each time.
        stocks: what ``available + held + sold`` should be of some counters, by key, or by field
            and primary key (``"shop.Product.stock:7"``). Each is read in one statement; see
            `CounterManager.stocktake`.

    Raises:
        InvalidKey, UnsupportedHold, RecordMissing: of such a counter there is no stock.
    """
    inquiry = SqlInquiry(NAMED, using)
    prefix = f"{namespace}:" if namespace else ""
    keys = None if sample is None else inquiry.sample(prefix, sample)
    # A wrong question is refused before anything is written down.
    differing_stocks = list(_differing_stocks(stocks or {}, using))
    report = Report(stocks=len(stocks or {}), drifts=inquiry.drift(prefix, keys))
    report.drifts += differing_stocks
    known = COUNTERS.rows(using).filter(outside__isnull=False)
    if prefix:
        # Not "startswith", for which SQLite takes A for a.
        known = known.annotate(head=Left("key", len(prefix))).filter(head=prefix)
    report.checked = known.count() if keys is None else len(keys)
    if keys is None and not prefix:
        _recount(using, report)
    if keys is None:
        places = list(counting_actors(using, namespace))
        report.measures = len(places)
        report.drifts += (drift for place in places for drift in differing(place, using))
        report.drifts += (one for one in forgotten(using) if one.key.startswith(prefix))
    for drift in report.drifts:
        detail = {"expected": drift.expected, "found": drift.found}
        record(CounterIncident.Kind.DRIFT, drift.key, detail, using)
    return report


def _differing_stocks(stocks: Mapping[str, int], using: str) -> Iterator[Drift]:
    for label, expected in stocks.items():
        found = stock_of(labelled(label, using)).total
        if found != expected:
            yield Drift(label, expected, found)


def _recount(using: str, report: Report) -> None:
    """Whether sealed partitions have what they had."""
    for name, sealed in SqlPartitions(using).sealed().items():
        entries = ENTRIES.rows(using).filter(
            created_at__gte=sealed.since, created_at__lt=sealed.until
        )
        found = entries.aggregate(count=Count("*"), total=Sum("delta"))
        report.partitions += 1
        differs = found["count"] != sealed.entries or (found["total"] or 0) != sealed.delta_sum
        # It may just have been dropped.
        if differs and name in SqlPartitions(using).sealed():
            report.drifts.append(Drift(name, int(sealed.delta_sum), int(found["total"] or 0)))
