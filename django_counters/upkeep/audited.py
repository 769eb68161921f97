"""How far the audit was sound when it was last verified: kept apart from the adjustments."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db.models import Exists, Max, OuterRef

from django_counters.access import AUDITED
from django_counters.exceptions import ReadOnlyDatabase
from django_counters.tables import AdjustmentRequest, CounterAdjustment
from django_counters.tables.delta import DeltaColumns
from django_counters.tables.standing import COUNTERS, ENTRIES
from django_counters.write import pipeline

logger = logging.getLogger("django_counters")
_NAMED = f"{AUDITED}:"


def head(using: str) -> tuple[int, str] | None:
    """Number and digest of the last adjustment by then; None where nothing was verified."""
    kept = COUNTERS.rows(using).filter(key__startswith=_NAMED).order_by("-value")
    found = kept.values_list("value", "key").first()
    return found and (int(found[0]), str(found[1]).removeprefix(_NAMED))


def keep(number: int, digest: str, using: str) -> None:
    """Keep a head: a counter whose value is the number, and whose name has the digest.

    A run that ends later than one that has seen more leaves that one's.
    """
    if (known := head(using)) and known[0] >= number:
        return
    try:
        with pipeline.all_or_nothing(using):
            kept = COUNTERS.rows(using)
            kept.get_or_create(key=f"{_NAMED}{digest}", defaults={"value": number})
            kept.filter(key__startswith=_NAMED, value__lt=number).delete()
    except ReadOnlyDatabase:
        logger.warning("Adjustments of %s: it is read-only, so the head is not kept.", using)


def led_to(using: str) -> int:
    """The last adjustment that a request says it led to; zero where there is none."""
    requests = AdjustmentRequest._base_manager.using(using)
    return int(requests.aggregate(last=Max("adjustment"))["last"] or 0)


def unexplained(since: datetime | None, using: str) -> int:
    """How many corrections in the ledger have no adjustment; None: of all that it has.

    Adjustments are made one after the other, so those of before the last one need no look.
    """
    entries = ENTRIES.rows(using).filter(kind=DeltaColumns.Kind.ADJUSTMENT)
    if since is not None:
        entries = entries.filter(created_at__gte=since)
    known = CounterAdjustment._base_manager.using(using).filter(entry=OuterRef("token"))
    return entries.filter(~Exists(known)).count()
