"""Buffers in a test case, which is always rolled back: nothing may land when it is over."""

from __future__ import annotations

import pytest

from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.write.buffers import buffers

pytestmark = pytest.mark.django_db


def test_it_is_counted_as_without_one() -> None:
    with override_counters(hits={"BUFFER": {"seconds": 3600}}):
        handle = Counter.objects.handle("hits:case")
        assert Counter.objects.increment("hits:case") == 1
        handle.increment()
        assert Counter.objects.increment_many({"hits:case": 2, "hits:b": 1})["hits:case"] == 4
        assert Counter.objects.value("hits:case") == 4
        assert not any(waits.entries for _, waits in buffers.waiting("default"))
