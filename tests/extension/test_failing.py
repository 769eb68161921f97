"""An app fails, or declares something wrong: the others do their work, and a person is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from celery.signals import worker_process_shutdown
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import Error, OperationalError, connection
from django.test import override_settings
from django.urls import include, path
from django.views import View

import django_counters.tasks  # noqa: F401 - its handlers of signals
from django_counters.cached.feature import RedisStates
from django_counters.checks import check_names
from django_counters.contrib.holds.apps import Holds
from django_counters.contrib.uniques.models import CounterMember
from django_counters.errors import CounterUnavailable
from django_counters.features import Done, Drift, Feature, Finding, Gauge, GaugeValue
from django_counters.jobs import run, upkeep_problems
from django_counters.ledger.operations import FENCED
from django_counters.metrics.facts import Facts, Part, gather
from django_counters.metrics.prometheus import CountersCollector
from django_counters.metrics.samples import samples_of, scraping
from django_counters.models import Counter
from django_counters.options import Option
from django_counters.testing import apart, override_counters
from django_counters.upkeep import prune_all
from tests.extension.apps import SAD, Moods
from tests.extension.models import Mood
from tests.extension.queued import waiting
from tests.extension.test_extension import output, sampled

pytestmark = pytest.mark.django_db
HOLDS = "django_counters.contrib.holds"


def fail(*_: Any, **__: Any) -> Any:
    """As a mistake in the app's code. PostgreSQL then refuses the rest of a transaction."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT number FROM no_such_table")
    except Error as error:
        raise LookupError("no_such_table") from error


@pytest.fixture(autouse=True)
def _second_has_no_migrations(settings: Any) -> None:
    """Whoever reads the migrations of all apps passes `second` over."""
    settings.MIGRATION_MODULES = {"second": None}


@pytest.fixture
def _holds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks of the first app raise."""
    for hook in ("rollup", "prune", "drifts", "findings", "inquiries"):
        monkeypatch.setattr(Holds, hook, fail)


@pytest.mark.usefixtures("_holds_fail")
def test_others_fold() -> None:
    with override_counters(hits={"UNIQUE": ["day"]}):
        Counter.objects.increment("hits:a", who=1)
        out = StringIO()
        with pytest.raises(CommandError, match=rf"^{HOLDS} failed: .*no_such_table"):
            call_command("counters", "upkeep", "rollup", "--json", stdout=out)
    assert json.loads(out.getvalue())["rollup"]["others"] == {"members": 1}
    assert not CounterMember.objects.exists()


@pytest.mark.usefixtures("_holds_fail")
def test_others_prune() -> None:
    Mood.objects.create(key="a", text="")
    with pytest.raises(CommandError, match=rf"{HOLDS} failed: \w+Error: .*no_such_table"):
        output("upkeep", "prune")
    assert not Mood.objects.exists()


@pytest.mark.usefixtures("_holds_fail")
def test_others_are_verified() -> None:
    Mood.objects.create(key="a", text="odd")
    with pytest.raises(CommandError, match=rf"a: 1, not 0; {HOLDS} failed: .*no_such_table"):
        output("verify")


@pytest.mark.usefixtures("_holds_fail")
def test_others_have_findings() -> None:
    for text in ("sad", "lonely"):
        Mood.objects.create(key="a", text=text)
    findings = json.loads(output("doctor", "--json"))
    failed = [one["action"] for one in findings if one["subject"] == HOLDS and one["needed"]]
    assert ["no_such_table" in action for action in failed] == [True, True]
    assert {"moods", "friends"} < {one["subject"] for one in findings}
    with pytest.raises(CommandError, match="ACT"):
        output("doctor", "--fail")


@pytest.mark.parametrize(
    "error", [OperationalError("no answer"), CounterUnavailable(reason="no answer")]
)
def test_findings_are_unknown_during_an_outage(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def findings(*_: object) -> Any:
        raise error

    monkeypatch.setattr(Holds, "findings", findings)
    found = gather(Facts("default"), "added")
    assert (found.added, [away.reason for away in found.away]) == (None, ["no answer"])
    assert caplog.records == []


def once(hook: str, result: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook of the first app fails the first time."""
    errors = [OperationalError("deadlock detected")]

    def failing_once(*_: object, **__: object) -> object:
        if errors:
            raise errors.pop()
        return result

    monkeypatch.setattr(Holds, hook, failing_once)


def turn(job: str) -> list[Done | Exception]:
    """The result of a job, if it is due."""
    return [done for _, done in run("default", [job], due=True)]


@pytest.mark.parametrize(
    ("job", "hook", "result"),
    [("rollup", "rollup", {}), ("prune", "prune", {}), ("verify", "drifts", [Drift("b", 0, 1)])],
)
def test_the_job_is_done_again_at_the_next_turn(
    job: str, hook: str, result: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(hook, result, monkeypatch)
    Mood.objects.create(key="a", text="odd")
    (failed,), (done,) = turn(job), turn(job)
    assert isinstance(failed, Done)
    assert failed.problems[-1] == f"{HOLDS} failed: OperationalError: deadlock detected"
    assert isinstance(done, Done)
    assert "failed" not in "".join(done.problems)
    # Drifts stay until a person has looked at them.
    assert bool(done.problems) == (job == "verify")
    assert turn(job) == []


def broken(*_: object) -> None:
    raise LookupError("broken")


@pytest.mark.parametrize("every", [{}, {"expire": 30, "cheer": 30}])
def test_others_have_jobs(every: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holds, "jobs", broken)
    Mood.objects.create(key="a", text="sad")
    with override_settings(COUNTERS_UPKEEP=every):
        with pytest.raises(CommandError, match=rf"^{HOLDS} failed: LookupError: broken$"):
            output("upkeep")
        assert Mood.objects.get().text == "calm"
        assert output("upkeep", "cheer") == "0 cheered up"


@pytest.mark.django_db(transaction=True)
def test_others_have_gauges(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Mood.objects.create(key="a", text="sad")
    collector = CountersCollector("default", max_age=600, patience=60)

    def values(name: str) -> list[float]:
        return [s.value for one in collector.collect() if one.name == name for s in one.samples]

    monkeypatch.setattr(Holds, "gauges", broken)
    assert values(SAD.name) == [1]
    assert f"{HOLDS} · the app failed: LookupError: broken" in output("doctor")
    assert f"{HOLDS} failed." in caplog.messages
    # The last answer of the database still has its values.
    monkeypatch.setattr(Moods, "gauges", broken)
    assert values(SAD.name) == []
    assert values("django_counters_findings") == [2]


class Cellar(Part):
    """A part that another server has."""

    name = "cellar"
    label = "cellar"
    full = Gauge("cellar_bottles", "How many are full.")

    def read(self, using: str) -> Iterator[int]:
        yield from (0, 3)

    def is_up(self, state: int) -> bool:
        return state > 0

    def findings(self, state: int) -> Iterator[Finding]:
        yield Finding("cellar", "", state, 1, "drink", needed=True)

    def values(self, state: int) -> Iterator[GaugeValue]:
        yield GaugeValue(self.full, (), state)


def cellar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moods, "parts", lambda _: [Cellar()])
    monkeypatch.setattr(Moods, "gauges", lambda _: [SAD, Cellar.full])


def scraped() -> dict[tuple[str, ...], float]:
    return {(one.metric.name, *one.labels[1:]): one.value for one in sampled("default")}


@pytest.mark.django_db(transaction=True)
def test_a_part_of_an_app_is_read_as_far_as_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cellar(monkeypatch)
    first, *_, last = (samples_of(one) for one in scraping("default"))
    up = "django_counters_up", ("default", "cellar")
    assert [(one.metric.name, one.labels) for one in first if one.value].count(up) == 0
    assert [(one.metric.name, one.labels) for one in last if one.value].count(up) == 1
    assert scraped()[("cellar_bottles",)] == 3
    assert "ACT · cellar · 3 rows of 1 counters wait · drink" in output("doctor")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [OperationalError("dark"), LookupError("dark")])
def test_a_part_that_cannot_be_read_hides_no_other(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> Iterator[int]:
        yield 1
        raise error

    monkeypatch.setattr(Cellar, "read", read)
    cellar(monkeypatch)
    found = gather(Facts("default"), "cellar", "incidents")
    assert (found.parts, found.incidents) == ({"cellar": 1}, ())
    assert [(away.part, away.reason) for away in found.away] == [("cellar", str(error))]


def test_others_have_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holds, "parts", broken)
    cellar(monkeypatch)
    said = output("doctor")
    assert f"{HOLDS} · the app failed: LookupError: broken" in said
    assert "ACT · cellar" in said


def test_others_end_with_a_process_of_a_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Holds, "end_process", broken)
    # Buffers, which end as well, begin anew after it.
    with apart(), override_counters(parties={"QUEUED": True}):
        Counter.objects.increment("parties:a", 2)
        worker_process_shutdown.send(None)
        assert Counter.objects.value("parties:a") == 2
    assert f"{HOLDS} failed when the process of a worker ended." in caplog.messages


def test_others_are_cleared_between_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LookupError), apart():
        monkeypatch.setattr(Holds, "clear", broken)
        monkeypatch.setitem(apps.app_configs, "second", second(clear=broken))
        waiting["parties:a"] = 2
    assert waiting == {}


@pytest.mark.django_db(transaction=True)
def test_a_gauge_that_is_not_declared_is_left_out_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happy = Gauge("moods_happy_counters", "How many are.")

    def findings(*_: object) -> Iterator[Finding | GaugeValue]:
        yield GaugeValue(happy, (), 2)
        yield GaugeValue(SAD, ("sad",), 1)

    monkeypatch.setattr(Moods, "findings", findings)
    assert [sample.value for sample in sampled("default") if "moods" in sample.metric.name] == [1]
    assert "moods_happy_counters is not among the gauges of its app" in output("doctor")


def second(name: str = "shop.second", **declared: Any) -> Any:
    """Return an app that declares something of its own."""
    feature = type("Second", (Feature,), declared)()
    models = {"label": "second", "get_models": lambda *_, **__: ()}
    return SimpleNamespace(name=name, counters_feature=feature, **models)


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ({"options": Moods.options}, "option: 'MOOD'"),
        ({"namespace_options": Moods.namespace_options}, "option: 'SHARED'"),
        ({"actions": Moods.actions}, "action of the API: 'cheer'"),
        ({"strategies": Moods.strategies}, "strategy: 'twice'"),
        ({"commands": Moods.commands}, "sub-command: 'mood'"),
        ({"outlets": Moods.outlets}, "outlet: 'diary'"),
        ({"tallies": Moods.tallies}, "metric: 'moods_cheered_total'"),
        ({"gauges": Moods.gauges}, "metric: 'moods_sad_counters'"),
        ({"rest": "tests.extension.rest"}, "route: 'cheer'"),
    ],
)
def test_two_apps_that_declare_one_name_are_named(
    declared: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_names() == []
    monkeypatch.setitem(apps.app_configs, "second", second(**declared))
    messages = [error.msg for error in check_names()]
    assert f"tests.extension and shop.second declare the same {what}." in messages


def test_only_names_of_routes_are_compared_also_of_included_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = View.as_view()
    named, unnamed = path("a/", view, name="cheer"), path("b/", view)
    modules: dict[str, Sequence[Any]] = {
        "second": [path("c/", include([named, unnamed])), path("d/", view, name="d"), unnamed],
        "third": [path("e/", include(([named], "apart"))), unnamed],
    }
    for name, routes in modules.items():
        module = f"shop_{name}_rest"
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(urlpatterns=routes))
        monkeypatch.setitem(apps.app_configs, name, second(f"shop.{name}", rest=module))
    messages = [error.msg for error in check_names()]
    assert messages == ["tests.extension and shop.second declare the same route: 'cheer'."]


@pytest.mark.parametrize(
    "declared",
    [
        {"namespace_options": (Option("MAX_AGE", None, "", ""),)},
        {"namespace_options": (Option("API", None, "", ""),)},
        {"actions": {"increment": "shop.increment"}},
        {"strategies": {"cached": "shop.CACHED"}},
    ],
)
def test_so_is_this_package(declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(apps.app_configs, "second", second(**declared))
    (error,) = check_names()
    assert error.msg.startswith("django_counters and shop.second declare the same ")


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ({"commands": {"flush": "shop.flush"}}, "cached and shop.second declare the same sub-"),
        ({"gauges": lambda _: [FENCED]}, "ledger and shop.second declare the same metric"),
        ({"parts": lambda _: [RedisStates()]}, "cached and shop.second declare the same part"),
    ],
)
def test_so_are_its_strategies(
    declared: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(apps.app_configs, "second", second(**declared))
    (error,) = check_names()
    assert error.msg.startswith(f"django_counters.{what}")


def test_two_jobs_of_one_name_name_their_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(apps.app_configs, "second", second(jobs=Moods.jobs))
    (problem,) = upkeep_problems()
    assert problem == (
        "tests.extension and shop.second have a job 'cheer'. Rename that of your app."
    )


def test_two_apps_that_delete_rows_of_one_kind_are_added_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Mood.objects.create(key="a", text="")
    monkeypatch.setitem(apps.app_configs, "second", second(prune=lambda *_: {"moods": 2}))
    assert prune_all()[0]["moods"] == 3
