"""The page that Prometheus scrapes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import RequestFactory
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as families

from django_counters.cached.flush import flush
from django_counters.metrics import prometheus, samples
from django_counters.metrics.prometheus import CountersCollector, exposition
from django_counters.models import Counter
from django_counters.upkeep import rollup

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parent.parent.parent
# Those of an app of the tests have names of their own.
ALL = [
    one
    for one in (*samples.happened(), *samples.state())
    if one.name.startswith("django_counters_")
]
OPEN = "application/openmetrics-text; version=1.0.0"
PATIENCE = 60


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No answer that an earlier test has got, and nothing registered afterwards."""
    collector = CountersCollector("default", max_age=0, patience=PATIENCE)
    monkeypatch.setattr(prometheus, "_state", collector)
    yield
    if collector in REGISTRY._collector_to_names:
        REGISTRY.unregister(collector)


def scrape(accept: str = "", method: str = "GET") -> HttpResponse:
    return exposition(RequestFactory().generic(method, "/metrics", headers={"Accept": accept}))


def ours(found: Iterable[Metric]) -> dict[str, Metric]:
    return {one.name: one for one in found if one.name.startswith("django_counters_")}


@pytest.mark.usefixtures("cached")
class TestThePage:
    @pytest.mark.parametrize(("accept", "parse"), [("", families), (OPEN, open_families)])
    def test_it_has_every_metric_with_its_kind(self, accept: str, parse: Any) -> None:
        Counter.objects.increment("pages:a", 3)
        flush()
        rollup()
        found = ours(parse(scrape(accept).content.decode()))
        expected = {metric.name.removesuffix("_total"): metric.kind for metric in ALL}
        told = {name: one.type for name, one in found.items() if not name.endswith("_created")}
        assert told == expected

    def test_it_says_what_it_is(self) -> None:
        assert scrape()["Content-Type"].startswith("text/plain; version=0.0.4")
        assert scrape(OPEN)["Content-Type"].startswith("application/openmetrics-text")
        assert "no-store" in scrape()["Cache-Control"]

    def test_a_collector_that_the_project_has_registered_is_enough(self) -> None:
        own = CountersCollector("default", patience=PATIENCE)
        REGISTRY.register(own)
        try:
            text = scrape().content.decode()
        finally:
            REGISTRY.unregister(own)
        assert text.count("# TYPE django_counters_up ") == 1

    def test_it_only_answers_questions(self) -> None:
        assert scrape(method="POST").status_code == 405
        assert scrape(method="HEAD").status_code == 200


def test_a_batch_counts_as_many_as_it_has_counters() -> None:
    Counter.objects.increment_many({"pages:a": 1, "pages:b": 1, "pages:c": 1})
    Counter.objects.increment("pages:a")
    labels = {"database": "default", "strategy": "exact"}
    name = samples.BATCH_SIZE.name
    found = [REGISTRY.get_sample_value(f"{name}_{part}", labels) for part in ("count", "sum")]
    assert found == [2, 4]


SETUP = """
import os, django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()
from django.db import connections
connections["default"].settings_dict["NAME"] = os.environ["METRICS_DATABASE"]
import django_counters.metrics.prometheus
"""
COUNT = """
import sys
from django_counters.models import Counter
for _ in range(int(sys.argv[1])):
    Counter.objects.increment("pages:" + sys.argv[1], 2)
from django_counters.upkeep import rollup
rollup()
"""
SCRAPE = """
from django.test import RequestFactory
from django_counters.metrics.prometheus import exposition
print(exposition(RequestFactory().get("/metrics")).content.decode())
"""


def process(folder: Path, script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(folder),
        "METRICS_DATABASE": str(connection.settings_dict["NAME"]),
    }
    return subprocess.Popen(
        [sys.executable, "-c", SETUP + script, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(running: subprocess.Popen[str]) -> str:
    output, errors = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, errors
    return output


@pytest.mark.many_writers
def test_several_processes_are_added_up(tmp_path: Path) -> None:
    for running in [process(tmp_path, COUNT, str(times)) for times in (30, 12)]:
        output_of(running)
    found = ours(families(output_of(process(tmp_path, SCRAPE))))
    exact = {"database": "default", "strategy": "exact", "direction": "up"}

    def value(name: str, **labels: str) -> float:
        family = found[next(n for n in (name, name.rpartition("_")[0]) if n in found)]
        (one,) = (s.value for s in family.samples if (s.name, s.labels) == (name, labels))
        return one

    assert value(samples.CHANGES.name, **exact) == 42
    assert value(samples.AMOUNT.name, **exact) == 84
    upkeep = {"database": "default", "work": "rollup"}
    assert value(f"{samples.UPKEEP_SECONDS.name}_count", **upkeep) == 2
    # The state is asked once, by the one that is scraped.
    assert value(samples.UP.name, database="default", part="database") == 1
    assert Counter.objects.value("pages:30") == 60


def test_the_package_works_without_prometheus_client() -> None:
    script = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "import django; django.setup()\n"
        "import pkgutil, django_counters\n"
        "for each in pkgutil.walk_packages(django_counters.__path__, 'django_counters.'):\n"
        "    if not each.name.endswith(('metrics.prometheus', '.background')):\n"
        "        __import__(each.name)\n"
    )
    own = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=own, check=True)
