"""The digest of an adjustment: of all its columns, and of the one before."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta

import pytest
from django.test import override_settings

from django_counters.models import CounterAdjustment
from django_counters.stores.sql.chain import digest_of, holds
from tests.chains import append

rows = CounterAdjustment.objects
COLUMNS = [field.attname for field in CounterAdjustment._meta.concrete_fields]


def naive(fold: int) -> CounterAdjustment:
    """Made at half past two, in the night in which that comes twice."""
    row = CounterAdjustment(number=1, before=0, after=1, delta=1)
    row.created_at = datetime(2026, 10, 25, 2, 30, 0, 17, fold=fold)  # noqa: DTZ001
    row.digest = digest_of("", row)
    row.created_at = row.created_at.replace(fold=0)
    return row


@pytest.mark.django_db
def test_it_is_that_of_the_previous_one_and_of_all_columns() -> None:
    append(2)
    first, second = rows.order_by("number")
    values = {name: getattr(second, name) for name in COLUMNS if name != "digest"}
    values["entry"] = str(second.entry)
    values["created_at"] = second.created_at.isoformat(timespec="microseconds")
    text = json.dumps([1, first.digest, values], sort_keys=True, separators=(",", ":"))
    assert second.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.django_db
def test_it_holds_for_what_is_read_back() -> None:
    append(reason="ünï\u2028 '\"\\ \t", entry=None, before=-(2**63), after=2**63 - 1, delta=0)
    row = rows.get()
    assert holds("", row)
    assert not holds("0" * 64, row)


@pytest.mark.parametrize("fold", [0, 1])
def test_an_hour_that_comes_twice(fold: int) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Europe/Berlin"):
        assert naive(0).digest != naive(1).digest
        row = naive(fold)
        assert holds("", row)
        row.created_at += timedelta(microseconds=1)
        assert not holds("", row)
