"""Counts for two tenants in turn in one process, and prints what each of them reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django
from django.conf import settings
from django.db import connection, transaction

from django_counters.contrib import series

TENANTS = ("ta", "tb")


def current() -> str:
    """Return the present tenant: what ``COUNTERS_TENANT`` names."""
    tenant: str = connection.tenant  # type: ignore[attr-defined]
    return tenant


def switch(tenant: str) -> None:
    """Let the connection belong to a tenant."""
    connection.tenant = tenant  # type: ignore[attr-defined]


@contextmanager
def acting_for(tenant: str) -> Iterator[None]:
    """Switch to a tenant for a block: what ``COUNTERS_TENANT_CONTEXT`` names."""
    before = current()
    switch(tenant)
    try:
        yield
    finally:
        switch(before)


def deferred() -> dict[str, Any]:
    """Count as the first tenant and commit as the second one; what each of them has then."""
    from django_counters.contrib.series.models import CounterTag
    from django_counters.metrics.prometheus import CountersCollector
    from django_counters.models import Counter, CounterDelta, CounterMeasure
    from django_counters.registry import registry
    from django_counters.signals import counter_adjusted, incident_recorded
    from django_counters.stores.sql.incidents import record

    heard = []
    for signal in (counter_adjusted, incident_recorded):
        signal.connect(lambda **_: heard.append(current()), weak=False)
    for tenant in TENANTS:
        switch(tenant)
        CounterMeasure.objects.filter(name="late").delete()
    registry.forget_strategies()
    switch("ta")
    with transaction.atomic():
        Counter.objects.increment("late:a", tags={"country": "late"})
        Counter.objects.increment("spilled:a", 5)
        Counter.objects.adjust("adjusted", by=1, reason="a test", actor="ann")
        record("lost", "a test", {}, "default")
        # The same measure id and tag in another schema are another tenant's.
        switch("tb")
        with acting_for("ta"):
            same = CounterMeasure.objects.get(name="late").pk
        CounterMeasure.objects.create(
            pk=same, name="late", zone="UTC", tags=["country"], periods={"day": None}
        )
        Counter.objects.increment("late:a", tags={"country": "other"})
    switch("ta")
    with Counter.objects.collect():
        Counter.objects.increment("collected", 7)
        switch("tb")
    told: dict[str, Any] = {"heard": heard}
    metrics = CountersCollector("default", max_age=60)
    for tenant in TENANTS:
        switch(tenant)
        told[tenant] = {
            "late": Counter.objects.value("late:a"),
            "tags": list(
                CounterTag.objects.filter(measure_id=same).values_list("value", flat=True)
            ),
            "spilled": list(
                CounterDelta.objects.filter(key="spilled:a").values_list("delta", flat=True)
            ),
            "collected": Counter.objects.value("collected"),
            "lost": [
                sample.value
                for family in metrics.collect()
                for sample in family.samples
                if sample.labels.get("kind") == "lost"
            ],
        }
    return told


def exact() -> dict[str, int]:
    """Count an exact counter for each tenant in turn."""
    from django_counters.models import Counter

    for _ in range(3):
        for by, tenant in enumerate(TENANTS, 1):
            switch(tenant)
            Counter.objects.increment("plain", by)
    told = {}
    for tenant in TENANTS:
        switch(tenant)
        told[tenant] = Counter.objects.value("plain")
    return told


def main() -> None:
    """Migrate a schema for each tenant, and count in them."""
    django.setup()
    from django.core.management import call_command

    from django_counters.cached.flush import flush
    from django_counters.contrib.limits import Limit
    from django_counters.contrib.series.models import CounterCell
    from django_counters.models import Counter
    from django_counters.registry import registry

    limit = Limit("search", "1/day", by=lambda request: "ann")
    for tenant in TENANTS:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {tenant}")
        switch(tenant)
        call_command("migrate", verbosity=0)
    # Measures that the second tenant has under other ids.
    switch("tb")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_counters_countermeasure SET id = id + 100")
    # As a process that starts now.
    registry.forget_strategies()
    if not hasattr(settings, "COUNTERS_TENANT"):
        print(json.dumps(exact()))
        return
    taken: dict[str, list[bool]] = {tenant: [] for tenant in TENANTS}
    replayed: dict[str, list[bool]] = {tenant: [] for tenant in TENANTS}
    for turn in range(3):
        for by, tenant in enumerate(TENANTS, 1):
            switch(tenant)
            Counter.objects.increment("plain", by)
            Counter.objects.increment("orders:a", by)
            Counter.objects.increment("clicks:a", by, tags={"country": f"{tenant}{turn}"})
            Counter.objects.increment("views:a", by)
            vote: Any = Counter.objects.increment("votes:a", who="ann")
            replayed[tenant].append(vote.replayed)
            taken[tenant].append(bool(limit.take("ann")))
    told: dict[str, Any] = {}
    for tenant in TENANTS:
        switch(tenant)
        before = Counter.objects.value("views:a")
        flush()
        told[tenant] = {
            "plain": Counter.objects.value("plain"),
            "orders": Counter.objects.value("orders:a"),
            "views": [before, Counter.objects.get(key="views:a").value],
            "votes": Counter.objects.value("votes:a"),
            "clicks": Counter.objects.value("clicks:a"),
            "cells": sum(CounterCell.objects.values_list("value", flat=True)),
            "by country": series.of("clicks:a").by("country").total(),
            "replayed": replayed[tenant],
            "taken": taken[tenant],
        }
    told["deferred"] = deferred()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
