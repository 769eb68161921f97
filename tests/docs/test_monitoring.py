"""The pages of the metrics, the alerts and the dashboard are compared with what is exposed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory, override_settings
from prometheus_client import REGISTRY

from django_counters import conf, signals
from django_counters.metrics import CountersCollector, exposition, names
from django_counters.metrics.samples import PARTS
from django_counters.signals import batch_applied, upkeep_done
from django_counters.stores.redis.breaker import STATES
from tests.docs.test_docs import DOCS, blocks, load_tables, text_of

GUIDE = DOCS / "how-to" / "monitor.md"
METRICS = DOCS / "reference" / "metrics.md"
SIGNALS = DOCS / "reference" / "signals.md"
DASHBOARD = DOCS / "how-to" / "grafana.json"
DECLARED = {metric.name: metric for metric in (*names.HAPPENED, *names.STATE)}
SERIES = re.compile(r"\b(django_counters_[a-z_]+)")
# What Prometheus and Grafana add to the labels of a metric.
ADDED = {"le", "job", "instance"}


def exposed() -> set[str]:
    """The metrics that a scrape shows, as prometheus_client has them."""
    happened = {
        f"{one.name}_total" if one.type == "counter" else one.name
        for one in REGISTRY.collect()
        if one.name.startswith("django_counters_")
    }
    return happened | {one.name for one in CountersCollector().describe()}


def series() -> dict[str, names.Declared]:
    """All names that a query can ask for."""
    found = {}
    for name, metric in DECLARED.items():
        parts = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        found.update({name + part: metric for part in parts})
    return found


def queries() -> Iterator[str]:
    """What the dashboard and the alerts ask for."""
    for panel in json.loads(text_of(DASHBOARD))["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from re.findall(r"^ +expr: (.+)$", text_of(GUIDE), re.MULTILINE)


def test_the_declared_metrics_are_those_that_are_exposed() -> None:
    assert exposed() == set(DECLARED)


def test_the_table_lists_exactly_the_metrics() -> None:
    table = load_tables().metrics_table()
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(DECLARED)
    assert "```{from-code} metrics\n```" in text_of(METRICS)


def test_the_pages_name_no_other_metric() -> None:
    for page in (GUIDE, METRICS, SIGNALS):
        named = set(SERIES.findall(text_of(page)))
        assert named <= set(series()) | set(DECLARED), page.name


def test_the_page_explains_each_label_with_its_values() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.+) \|$", text_of(METRICS), re.MULTILINE))
    labels = {label for metric in DECLARED.values() for label in metric.labels}
    assert labels <= set(rows)

    def values(label: str) -> set[str]:
        return set(re.findall(r"`([a-z-]+)`", rows[label]))

    assert values("strategy") == {*conf.NAMED_STRATEGIES, *conf.FIELD_STRATEGIES}
    assert values("part") == set(PARTS)
    assert values("state") == set(STATES)


@pytest.mark.parametrize("query", list(queries()))
def test_a_query_asks_for_metrics_and_labels_that_exist(query: str) -> None:
    asked = SERIES.findall(query)
    assert asked
    assert set(asked) <= set(series())
    known = {label for name in asked for label in series()[name].labels} | ADDED
    grouped = {word for group in re.findall(r"by \(([^)]*)\)", query) for word in group.split(", ")}
    matched = set(re.findall(r"(\w+)(?:=~|!=|=)\"", query))
    assert grouped | matched <= known


def test_every_metric_is_on_the_dashboard() -> None:
    panels = json.loads(text_of(DASHBOARD))["panels"]
    asked = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in SERIES.findall(target["expr"])
    }
    known = series()
    assert {known[name].name for name in asked} == set(DECLARED)


def test_the_dashboard_can_be_imported() -> None:
    board = json.loads(text_of(DASHBOARD))
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert variables.keys() == {"datasource", "job", "database"}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        used = set(re.findall(r"\$(\w+)", " ".join(t["expr"] for t in panel["targets"])))
        assert used - {"__rate_interval"} <= set(variables)
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (x, y)
        for one in places
        for x in range(one["x"], one["x"] + one["w"])
        for y in range(one["y"], one["y"] + one["h"])
    ]
    assert len(cells) == len(set(cells)), "panels lie on each other"
    assert max(x for x, _ in cells) < 24


def test_the_guide_gives_the_dashboard_away() -> None:
    assert "<grafana.json>`" in text_of(GUIDE)


def test_the_table_lists_exactly_the_signals() -> None:
    defined = {name for name, value in vars(signals).items() if hasattr(value, "send_robust")}
    defined = {name for name in defined if not isinstance(getattr(signals, name), type)}
    table = load_tables().signals_table()
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == defined
    assert "```{from-code} signals\n```" in text_of(SIGNALS)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["batch_applied", "upkeep_done"])
def test_the_page_lists_the_arguments_of_a_signal(name: str) -> None:
    from django_counters.models import Counter
    from django_counters.upkeep.rollup import rollup

    heard: list[dict[str, Any]] = []

    def hear(**arguments: Any) -> None:
        heard.append(arguments)

    signal = {"batch_applied": batch_applied, "upkeep_done": upkeep_done}[name]
    signal.connect(hear)
    try:
        Counter.objects.increment("pages:a")
        rollup()
    finally:
        signal.disconnect(hear)
    (sent,) = heard
    _, _, section = text_of(SIGNALS).partition(f"\n## {name}\n")
    section, _, _ = section.partition("\n## ")
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert listed == set(sent) - {"sender", "signal"}
    (row,) = re.findall(rf"^\| `{name}` \| ([^|]+) \|", load_tables().signals_table(), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == listed


def test_the_way_to_ask_for_a_secret_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (block for block in blocks(GUIDE) if "Bearer" in block)
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
