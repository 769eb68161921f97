"""Counters with large values and long keys, and the pages of the admin that show them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse

from django_counters.adjustments.approval import ask
from django_counters.models import AdjustmentRequest, Counter
from django_counters.testing import override_counters
from django_counters.write.changes import named

KEY = "orders:warehouse-north:2026-11-26:returns"
LARGE = 987_654_321_098


@contextmanager
def large_counters() -> Iterator[None]:
    """Counters with large values and long keys, adjustments, and requests that wait."""
    policy = {"STRATEGY": "ledger", "APPROVE_ABOVE": 50}
    with override_counters(orders=policy, views={"STRATEGY": "sharded"}):
        Counter.objects.increment_many({KEY: LARGE, "orders:b": 7})
        for number in range(25):
            Counter.objects.increment(f"views:{number}", LARGE)
        for by in (1, -2):
            Counter.objects.adjust(KEY, by=by, reason="Tests of the cash desk", actor="clerk")
        value = Counter.objects.value(KEY)
        ask(named(KEY), to=20, expected=value, reason="counted by hand", actor="clerk", case="T-81")
        yield


def addresses() -> dict[str, str]:
    """The pages of the app, by what they are."""
    lists = {
        name: reverse(f"admin:django_counters_{name}_changelist")
        for name in ("counter", "counteradjustment", "adjustmentrequest", "counterincident")
    }
    form = f"{reverse('admin:django_counters_adjust')}?{urlencode({'field': '', 'key': KEY})}"
    request = AdjustmentRequest.objects.get().pk
    return {
        **lists,
        "by value": f"{lists['counter']}?o=-1",
        "overview": reverse("admin:django_counters_overview"),
        "page": reverse("admin:django_counters_counter_change", args=[quote(KEY)]),
        "form": form,
        "request": reverse("admin:django_counters_adjustmentrequest_change", args=[request]),
    }
