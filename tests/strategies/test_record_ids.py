"""Records whose keys cannot stand in slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from django_counters.exceptions import InvalidKey
from django_counters.models import SlottedCounter
from tests.testapp.models import Moment, Song

pytestmark = pytest.mark.django_db


def test_a_moment_is_no_record_id() -> None:
    """As a text it depends on the time zone of the connection: it would find other slots."""
    moment = Moment.objects.create(at=timezone.now())
    calls: list[Callable[[], Any]] = [
        lambda: SlottedCounter.objects.increment(moment, "downloads"),
        lambda: SlottedCounter.objects.decrement(moment, "downloads"),
        lambda: SlottedCounter.objects.value(moment, "downloads"),
        lambda: SlottedCounter.objects.read(moment, "downloads"),
        lambda: SlottedCounter.objects.values_of([Song.objects.create(), moment], "downloads"),
    ]
    for call in calls:
        with pytest.raises(InvalidKey, match="integer, UUID or text"):
            call()
    assert not SlottedCounter.objects.exists()
