"""The receivers that the page about tracing shows tell a tracer what was counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from django.db import transaction
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_counters.models import Counter, CounterIncident
from django_counters.signals import batch_applied, incident_recorded, upkeep_done
from django_counters.upkeep import rollup
from tests.docs.pages import DOCS, blocks
from tests.testapp.models import Post

pytestmark = pytest.mark.django_db
OPENTELEMETRY, SENTRY = blocks(DOCS / "how-to" / "trace.md", "python")


@pytest.fixture
def connected() -> Iterator[dict[str, Any]]:
    """What a block defines. Receivers live as long as these names."""
    names: dict[str, Any] = {}
    yield names
    for signal in (batch_applied, incident_recorded, upkeep_done):
        for one in filter(callable, names.values()):
            signal.disconnect(one)


def test_opentelemetry(connected: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    exec(compile(OPENTELEMETRY.text, OPENTELEMETRY.page, "exec"), connected)
    post = Post.objects.create()
    with provider.get_tracer("site").start_as_current_span("a request"):
        Counter.objects.increment_many({"traced:a": 1, "traced:b": 2})
        post.views.increment()
        rollup()
    folded, request = kept.get_finished_spans()
    told = [dict(event.attributes or {}) for event in request.events]
    assert [event.name for event in request.events] == ["counters changed"] * 2
    assert told == [
        {
            "counters.names": names,
            "counters.changes": changes,
            "counters.strategy": "exact",
            "counters.database": "default",
        }
        for names, changes in ((("default",), 2), (("testapp.Post.views",), 1))
    ]
    assert folded.name == "counters rollup"
    assert folded.parent is not None
    assert folded.parent.span_id == request.context.span_id
    times = (request.start_time, folded.start_time, folded.end_time)
    assert [time for time in times if time] == sorted(time or 0 for time in times)


def test_sentry(connected: dict[str, Any]) -> None:
    sent: list[Any] = []
    exec(compile(SENTRY.text, SENTRY.page, "exec"), connected)
    options: dict[str, Any] = {"default_integrations": False, "auto_enabling_integrations": False}
    with sentry_sdk.isolation_scope() as scope:
        client = sentry_sdk.Client(before_send=lambda event, _: sent.append(event), **options)
        scope.set_client(client)
        with transaction.atomic():
            Counter.objects.increment("traced:a")
        found = CounterIncident(kind="quarantined", subject="default")
        incident_recorded.tell(CounterIncident, incident=found, using="default")
    (event,) = sent
    (crumb,) = event["breadcrumbs"]["values"]
    assert (event["message"], event["tags"]) == ("counters: quarantined", {"database": "default"})
    assert crumb["data"] == {"names": ["default"], "changes": 1, "strategy": "exact"}
