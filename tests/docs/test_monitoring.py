"""What the dashboard, the alerts and the pages ask for is declared, and guarded as they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory, override_settings

from django_counters.metrics import samples
from django_counters.metrics.prometheus import exposition
from tests.docs.pages import DOCS, blocks, text_of

GUIDE = DOCS / "how-to" / "monitor.md"
BOARD = json.loads(text_of(DOCS / "how-to" / "grafana.json"))
# Those of an app of the tests have names of their own.
DECLARED = {
    metric.name: metric
    for metric in (*samples.happened(), *samples.state())
    if metric.name.startswith("django_counters_")
}
NAME = re.compile(r"\b(django_counters_[a-z_]+)")
# What Prometheus and Grafana add to the labels of a metric.
ADDED = {"le", "job", "instance"}
# All names that a query can ask for.
SERIES = {
    metric.name + part: metric
    for metric in DECLARED.values()
    for part in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}


def on_the_dashboard() -> Iterator[str]:
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_queries_ask_for_metrics_and_labels_that_exist() -> None:
    alerts = re.findall(r"^ +expr: (.+)$", text_of(GUIDE), re.MULTILINE)
    assert alerts
    for query in (*on_the_dashboard(), *alerts):
        asked = NAME.findall(query)
        assert asked, query
        known = {label for name in asked for label in SERIES[name].labels} | ADDED
        groups = re.findall(r"by \(([^)]*)\)", query)
        grouped = {word for group in groups for word in group.split(", ")}
        matched = set(re.findall(r"(\w+)(?:=~|!=|=)\"", query))
        assert grouped | matched <= known, query


def test_every_metric_is_on_the_dashboard_and_its_variables_are_defined() -> None:
    text = " ".join(on_the_dashboard())
    assert {SERIES[name].name for name in NAME.findall(text)} == set(DECLARED)
    variables = {one["name"] for one in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$(\w+)", text)) - {"__rate_interval"} <= variables


def test_the_way_to_ask_for_a_secret_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (one.text for one in blocks(GUIDE, "python") if "Bearer" in one.text)
    namespace: dict[str, Any] = {}
    exec(block, namespace)
    ask = namespace["metrics"]
    assert set(ask._non_atomic_requests) == set(exposition._non_atomic_requests)  # type: ignore[attr-defined]
    monkeypatch.setitem(namespace, "exposition", lambda request: request.path)

    def request(**headers: str) -> HttpRequest:
        return RequestFactory().get("/metrics", headers=headers)

    with override_settings(METRICS_TOKEN="s3cret"):
        assert ask(request()).status_code == 403
        assert ask(request(Authorization="Bearer wrong")).status_code == 403
        assert ask(request(Authorization="Bearer s3cret")) == "/metrics"
