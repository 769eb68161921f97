"""Upkeep as a task of Django's own framework."""

from __future__ import annotations

import pytest
from django.test import override_settings

from django_counters.jobs import jobs
from django_counters.models import Counter, CounterShard

pytest.importorskip("django.tasks", reason="Django has tasks from 6.0 on", exc_type=ImportError)
IMMEDIATE = "django.tasks.backends.immediate.ImmediateBackend"


@pytest.mark.django_db
@override_settings(TASKS={"default": {"BACKEND": IMMEDIATE}})
def test_it_does_what_is_due() -> None:
    from django_counters.background import upkeep

    CounterShard.objects.increment("a", 5)
    result = upkeep.enqueue()
    assert list(result.return_value) == list(jobs())
    assert Counter.objects.get(key="a").value == 5
    assert list(upkeep.enqueue(using="default").return_value) == ["buffers"]
