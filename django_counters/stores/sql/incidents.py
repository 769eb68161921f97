"""Incidents: what was lost, quarantined or not counted, as rows that an operator reads."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import Error, transaction

from django_counters import clock
from django_counters.errors import OutcomeUnknown
from django_counters.signals import incident_recorded
from django_counters.stores.sql.session import is_of_a_test_case
from django_counters.tables import CounterIncident
from django_counters.tenants import for_this_tenant

logger = logging.getLogger("django_counters")


def record(kind: str, subject: str, detail: dict[str, Any], using: str) -> CounterIncident | None:
    """Write down an incident. None where the last one of the subject said the same."""
    rows = CounterIncident._base_manager.using(using)
    same = rows.filter(kind=kind, subject=subject).order_by("-pk").first()
    if same is not None and same.detail == detail:
        return None
    incident = rows.create(kind=kind, subject=subject, detail=detail)
    logger.error("Counter incident: %s %s %s", kind, subject, detail)
    told = partial(incident_recorded.tell, CounterIncident, incident=incident, using=using)
    if is_of_a_test_case(using, outermost=True):
        told()
    else:
        # A receiver that fails would take back what is committed with the incident.
        transaction.on_commit(for_this_tenant(told), using=using)
    return incident


def record_unsent(
    using: str, source: str, numbers: Mapping[str, int], error: Exception, what: str = "amounts"
) -> None:
    """Write down increments that were committed, and not counted, or perhaps not.

    ``what``: or ``"maxima"``, which counters were to be raised to.
    """
    unknown = isinstance(error, OutcomeUnknown)
    kind = CounterIncident.Kind.UNKNOWN if unknown else CounterIncident.Kind.LOST
    # With the time, so that the same loss twice is two incidents.
    moment = clock.utc().isoformat()
    detail = {what: dict(numbers), "reason": str(error), "moment": moment}
    try:
        record(kind, source, detail, using)
    except Error:
        # Without the database the log is all there is.
        logger.exception("Counter incident, not written down: %s %s %s", kind, source, detail)
