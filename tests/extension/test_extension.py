"""An app adds a capability, and no file of the package knows of it."""

from __future__ import annotations

import asyncio
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from celery.signals import worker_process_shutdown
from django.contrib.auth.models import Permission, User
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client, modify_settings, override_settings
from django.urls import reverse
from prometheus_client import REGISTRY

import django_counters
import django_counters.tasks  # its handlers of signals
from django_counters.cached.flush import flush
from django_counters.checks import check_setting
from django_counters.conf import problems
from django_counters.contrib import buffers, holds
from django_counters.contrib.holds.errors import UnsupportedHold
from django_counters.errors import (
    InvalidActor,
    InvalidConfiguration,
    UnsupportedBounds,
    UnsupportedMaximum,
    UnsupportedReading,
)
from django_counters.features import features
from django_counters.metrics.doctor import examine, facts_of, findings
from django_counters.metrics.facts import PARTS, Facts
from django_counters.metrics.samples import Sample, Scrape, samples_of, scraping
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.dialects import dialect_of
from django_counters.tables.schema import databases
from django_counters.testing import apart, override_counters
from django_counters.types import Result, Unknown
from tests.admin.reading import html_of
from tests.extension import diary
from tests.extension.apps import SHOUT, Moods, MoodsConfig
from tests.extension.models import Mood, Party
from tests.extension.queued import WAITS, waiting

pytestmark = pytest.mark.django_db
OPEN: dict[str, Any] = {"API": {"read": "anyone"}}


def output(*arguments: str) -> str:
    out = StringIO()
    call_command("counters", *arguments, stdout=out)
    return out.getvalue().strip()


def sampled(using: str) -> list[Sample]:
    *_, scrape = scraping(using)
    return list(samples_of(scrape))


def test_no_file_of_the_package_knows_it() -> None:
    package = Path(django_counters.__file__).parent
    assert not [path for path in package.rglob("*.py") if "mood" in path.read_text().lower()]


def test_its_option_of_a_namespace_is_checked_and_kept() -> None:
    with override_counters(parties={"MOOD": "loud"}):
        assert registry.policy("parties:a").options["mood"] == "loud"
    (problem,) = problems({"parties": {"MOOD": "sour"}})
    assert (problem.code, "'sour' isn't a mood" in problem.message) == ("E100", True)


def test_its_option_of_a_field() -> None:
    field: Any = Party._meta.get_field("guests")
    assert field.options["mood"] == "loud"
    assert field.deconstruct()[3]["mood"] == "loud"
    assert run_checks() == []


def test_without_the_app_the_option_is_unknown() -> None:
    with modify_settings(INSTALLED_APPS={"remove": "tests.extension"}):
        assert not any(isinstance(one, Moods) for one in features())
        (problem,) = problems({"parties": {"MOOD": "loud"}})
        assert "unknown option 'MOOD'" in problem.message


def test_forgetting_a_counter_forgets_its_rows() -> None:
    Counter.objects.increment("a", 5)
    for key in ("a", "b"):
        Mood.objects.create(key=key, text="sad")
    Counter.objects.forget("a")
    assert list(Mood.objects.values_list("key", flat=True)) == ["b"]


def test_its_rows_go_with_a_record() -> None:
    gone, kept = Party.objects.create(), Party.objects.create()
    for key in (gone.pk, kept.pk):
        Mood.objects.create(owner="moods.Party.guests", key=key, text="sad")
    Mood.objects.create(key=gone.pk, text="sad")
    Party.objects.filter(pk=gone.pk).delete()
    assert set(Mood.objects.values_list("owner", "key")) == {
        ("moods.Party.guests", str(kept.pk)),
        ("", str(gone.pk)),
    }


def test_upkeep_does_its_job_and_prune_what_is_old() -> None:
    for text in ("sad", ""):
        Mood.objects.create(key="a", text=text)
    said = output("upkeep").splitlines()
    assert "1 cheered up" in said
    assert json.loads(output("upkeep", "cheer", "--json")) == {"cheer": {"cheered": 0}}
    assert [mood.text for mood in Mood.objects.all()] == ["calm"]
    Mood.objects.create(key="a", text="beyond")
    with pytest.raises(CommandError, match="beyond all moods"):
        output("upkeep", "--now")


def test_the_doctor_tells_what_it_found() -> None:
    assert "moods" not in output("doctor", "--all")
    Mood.objects.create(key="a", text="sad")
    assert "WARN · moods · 1 rows of 1 counters wait · cheer them up" in output("doctor")


def test_the_doctor_alone_inquires() -> None:
    Mood.objects.create(key="a", text="lonely")
    assert "WARN · friends · none has answered" in output("doctor")
    assert "friends" not in [one.subject for one in findings(facts_of("default", *PARTS))]


def test_its_section_of_the_overview(admin_client: Client) -> None:
    url = reverse("admin:django_counters_overview")
    assert "1 moods" not in html_of(admin_client, url)
    Mood.objects.create(key="a", text="sad")
    assert "1 moods" in html_of(admin_client, url)


def test_its_option_of_namespaces_alone() -> None:
    assert "moods.shared" not in registry.policies()
    with override_counters(parties={"SHARED": True}):
        assert registry.policy("moods.shared:a").recipe.strategy == "sharded"
    for wrong in ({"SHARED": "often"}, {"SHARED": True, "FLOOR": 0}):
        (problem,) = problems({"parties": wrong})
        assert "SHARED" in problem.message
    with override_settings(COUNTERS={"parties": wrong}):
        (error,) = check_setting()
    assert (error.id, error.hint) == ("counters.E102", "Remove SHARED.")


def test_counters_that_others_count_too() -> None:
    with override_counters(parties={"SHARED": True}):
        Counter.objects.increment_many({"parties:a": 2, "b": 1})
        assert Counter.objects.value("parties:a") == 4
        assert Counter.objects.values_of(["parties:a", "b"]) == {"parties:a": 4, "b": 1}
        with pytest.raises(UnsupportedReading, match="Call value"):
            Counter.objects.read("parties:a")
        with pytest.raises(UnsupportedBounds):
            Counter.objects.increment("parties:a", ceiling=9)
        with pytest.raises(UnsupportedMaximum):
            Counter.objects.maximum("parties:a", 9)


@pytest.mark.usefixtures("cached")
@pytest.mark.django_db(transaction=True)
def test_it_can_refuse_to_land(monkeypatch: pytest.MonkeyPatch) -> None:
    Counter.objects.increment("views:a", 2)
    monkeypatch.setattr(Moods, "lands", None)
    assert list(flush().away.values()) == ["Nothing may land in the database now: all are asleep."]

    def wake(step: str) -> None:
        monkeypatch.setattr(Moods, "lands", "tomorrow" if step == "apply" else "today")

    wake("look")
    assert flush(step=wake).busy
    assert Counter.objects.filter(key="views:a", value__gt=0).count() == 0
    wake("look")
    assert flush().counters == 1
    assert Counter.objects.get(key="views:a").value == 2


def test_monitoring_leaves_foreign_databases_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert databases() == ["default", "other"]
    monkeypatch.setattr(Moods, "foreign", ["other"])
    assert databases() == ["default"]


def test_a_scrape_has_its_gauge() -> None:
    Mood.objects.create(key="a", text="sad")
    (told,) = [one for one in sampled("default") if one.metric.name == "moods_sad_counters"]
    assert (told.metric.labels, told.labels, told.value) == (
        ("database", "text"),
        ("default", "sad"),
        1,
    )


def test_its_sub_command() -> None:
    with pytest.raises(CommandError, match="a has no mood"):
        output("mood", "a")
    Mood.objects.create(key="a", text="sad")
    assert output("mood", "a") == "sad"


@pytest.mark.django_db(transaction=True)
def test_a_buffer_publishes_to_its_outlet() -> None:
    to = {"seconds": 3600, "to": "diary"}
    with override_counters(parties={"BUFFER": to}):
        Counter.objects.increment("parties:a", 2)
        buffers.flush()
    assert (diary.entries, Counter.objects.value("parties:a")) == ([("parties:a", 2)], 0)
    (problem,) = problems({"parties": {"BUFFER": {"to": "dairy"}}})
    assert problem.message.endswith("not 'dairy'; there are: 'diary'. Did you mean 'diary'?")


def reason_of(result: Result) -> str:
    assert isinstance(result, Unknown)
    return result.reason


@pytest.mark.django_db(transaction=True)
def test_its_intake_keeps_changes_until_the_process_ends() -> None:
    # Other apps, which end as well, begin anew after it.
    with apart(), override_counters(parties={"QUEUED": True}):
        assert reason_of(Counter.objects.increment("parties:a", 2)) == WAITS
        found = Counter.objects.increment_many({"parties:a": 3, "parties:b": 500, "guests:a": 1})
        assert (reason_of(found["parties:a"]), found["parties:b"], found["guests:a"]) == (
            *(WAITS, 500),
            1,
        )
        assert reason_of(async_to_sync(Counter.objects.aincrement)("parties:a", 1)) == WAITS
        assert Counter.objects.increment("parties:a", 700) == 700
        assert Counter.objects.increment("parties:a", 4, immediately=True) == 704
        assert Counter.objects.value("parties:a") == 710
        keys = ["parties:a", "parties:b", "guests:a"]
        assert list(Counter.objects.values_of(keys).values()) == [710, 500, 1]
        assert Counter.objects.read("parties:a").value == 710
        assert Counter.objects.get(key="parties:a").value == 704
        with pytest.raises(UnsupportedMaximum, match="others don't see the queue"):
            Counter.objects.maximum("parties:a", 1)
        with pytest.raises(UnsupportedHold, match="others don't see the queue"):
            holds.hold("parties:a", 1, minutes=1)
        worker_process_shutdown.send(None)
        assert Counter.objects.get(key="parties:a").value == 710


@pytest.mark.django_db(transaction=True)
def test_its_intake_gets_no_change_that_counts_an_actor() -> None:
    async def twice() -> list[int]:
        likes = [await Counter.objects.aincrement("parties:a", who=who) for who in ("ann", "bob")]
        return [int(like) for like in likes]

    with apart(), override_counters(parties={"QUEUED": True, "ONCE": True}):
        assert Counter.objects.increment("parties:a", who="ann") == 1
        assert asyncio.run(twice()) == [1, 2]
        assert waiting == {}
        with pytest.raises(InvalidActor):
            asyncio.run(Counter.objects.aincrement("parties:a"))


def test_a_declaration_ends_with_its_app() -> None:
    with override_counters(parties={"QUEUED": True}):
        assert registry.policy("parties:a").intake is not None
        with (
            modify_settings(INSTALLED_APPS={"remove": "tests.extension"}),
            pytest.raises(InvalidConfiguration, match="QUEUED"),
        ):
            Counter.objects.increment("parties:a")
        assert registry.policy("parties:a").intake is not None


def test_what_its_intake_keeps_is_reported_without_a_database() -> None:
    with override_counters(parties={"QUEUED": True}):
        Counter.objects.increment("parties:a", 2)
    assert ("queue", 1) in [(one.subject, one.counters) for one in examine()]
    unasked = Scrape(Facts("default"))
    values = {one.metric.name: one.value for one in samples_of(unasked)}
    assert values["moods_queued"] == 2
    with apart():
        assert waiting == {}


def test_verify_fails_where_something_of_it_is_wrong() -> None:
    assert output("verify")
    Mood.objects.create(key="a", text="odd")
    with pytest.raises(CommandError, match="a: 1, not 0"):
        output("verify")


def test_the_page_of_a_counter_has_its_section(admin_client: Client) -> None:
    Counter.objects.increment("parties:a")
    url = reverse("admin:django_counters_counter_change", args=["parties:a"])
    with override_counters(parties={"MOOD": "loud"}):
        assert "It is sad." not in html_of(admin_client, url)
        Mood.objects.create(key="parties:a", text="sad")
        assert "It is sad." in html_of(admin_client, url)


def test_its_route_of_the_api(client: Client) -> None:
    url = "/api/v1/counters/parties:a/mood"
    with override_counters(parties=OPEN):
        Counter.objects.increment("parties:a")
        refused = client.get(url)
        assert (refused.status_code, refused.json()["type"]) == (404, "urn:django-counters:no-mood")
        Mood.objects.create(key="parties:a", text="sad")
        assert client.get(url).json() == {"mood": "sad"}
        assert client.get("/api/v1/counters/parties:a").json()["value"] == 1


def test_its_action_of_the_api_has_a_rule_and_a_permission(client: Client) -> None:
    url = "/api/v1/counters/parties:a/cheer"
    user = User.objects.create_user("ann")
    client.force_login(user)
    with override_counters(parties={"API": {"cheer": "permission", "read": "anyone"}}):
        Counter.objects.increment("parties:a")
        assert client.post(url).status_code == 403
        user.user_permissions.add(Permission.objects.get(codename="add_mood"))
        assert client.post(url).json() == {"mood": "loud"}
    (problem,) = problems({"parties": {"API": {"cheer": "anyone"}}})
    assert "cheer cannot be for 'anyone'" in problem.message


def test_its_form_in_the_admin_is_for_who_may_adjust(admin_client: Client, client: Client) -> None:
    Counter.objects.increment("parties:a")
    url = f"{reverse('admin:moods_mood')}?field=&key=parties:a"
    assert admin_client.get(url).content == b"parties:a"
    client.force_login(User.objects.create_user("ann", is_staff=True))
    assert client.get(url).status_code == 403


def test_forgetting_a_person_asks_it() -> None:
    Mood.objects.create(key="a", text="ann")
    assert output("forget-actor", "ann", "--dry-run").endswith(", 1 moods")
    assert output("forget-actor", "ann").endswith(", 1 moods")
    assert output("forget-actor", "ann").endswith(", 0 moods")


def test_it_refuses_changes_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moods, "charge", "tests.extension.work.charge")
    api = {"read": "anyone", "increment": "authenticated"}

    def increment(*keys: str) -> int:
        counters = [{"key": key, "by": 1} for key in keys]
        body = {"counters": counters}
        return int(client.post("/api/v1/bulk/increment", body, "application/json").status_code)

    client = Client()
    client.force_login(User.objects.create_user("ann"))
    with override_counters(parties={"API": api}):
        assert increment("parties:a") == 200
        assert increment("parties:a", "parties:b") == 403
        assert Counter.objects.value("parties:a") == 1


def test_its_metric_counts_a_signal() -> None:
    from django_counters.metrics import prometheus  # noqa: F401 - it begins to count

    def counted() -> float:
        return REGISTRY.get_sample_value("moods_cheered_total", {"mood": "calm"}) or 0

    before = counted()
    output("upkeep", "cheer")
    assert counted() == before + 1


def test_a_class_in_place_of_an_instance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MoodsConfig, "counters_feature", Moods)
    with pytest.raises(ImproperlyConfigured, match=r"tests\.extension .* instance of a Feature"):
        features()


@pytest.mark.postgresql
class TestFunctions:
    @staticmethod
    def present() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regproc('django_counters_shout') IS NOT NULL")
            return bool(cursor.fetchone()[0])

    @pytest.mark.parametrize("name", ["shout", "django_counters_Shout", "django_counters_add"])
    def test_a_name_that_others_have(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        text = SHOUT.replace("django_counters_shout", name)
        monkeypatch.setattr(Moods, "functions", lambda *_: [text])
        with pytest.raises(InvalidConfiguration, match="no name of its own"):
            dialect_of("default").install("default")

    def test_another_schema_may_have_others(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA elsewhere")
            other = SHOUT.replace("shout(words", "shout(number int, words")
            cursor.execute(other.replace("FUNCTION ", "FUNCTION elsewhere."))
            cursor.execute("SET LOCAL search_path = public, elsewhere")
            cursor.execute("DROP FUNCTION django_counters_shout(text)")
            dialect_of("default").install("default")
            cursor.execute("SELECT django_counters_shout('hey')")
            assert cursor.fetchone() == ("HEY",)

    def test_migrate_makes_them(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT django_counters_shout('hey')")
            assert cursor.fetchone() == ("HEY",)
            cursor.execute("DROP FUNCTION django_counters_shout(text)")
        dialect_of("default").install("default")
        assert self.present()

    def test_a_project_without_the_app_leaves_them_to_one_that_has_it(self) -> None:
        """Both share a database: a worker that has no admin, say, and the site."""
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION django_counters_add(bigint, bigint, text)")
        with modify_settings(INSTALLED_APPS={"remove": "tests.extension"}):
            dialect_of("default").install("default")
        assert self.present()
        assert Counter.objects.increment("a") == 1
