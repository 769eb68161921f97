"""The overview in the admin: what has to be done, and where."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from django_counters import clock
from django_counters.models import Counter, CounterIncident, CounterShard, CounterSource
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from tests.admin.conftest import Login
from tests.admin.reading import html_of, texts
from tests.schemas import changes_schema, renamed_column
from tests.testapp.models import Tune

pytestmark = pytest.mark.django_db
NOBODY = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://:secret@127.0.0.1:1/0",
    }
}


@pytest.fixture
def url() -> str:
    return reverse("admin:django_counters_overview")


@pytest.fixture
def problems() -> Iterator[None]:
    """Something has to be done, and a Redis cannot be reached."""
    CounterShard.objects.increment("likes:a")
    record(CounterIncident.Kind.DRIFT, "a", {"expected": 1, "actual": 2}, "default")
    with override_settings(CACHES=NOBODY), override_counters(views={"STRATEGY": "cached"}):
        yield


def test_incidents_are_for_whoever_may_see_them(
    viewer: Client, login: Login, url: str, problems: None
) -> None:
    incidents = reverse("admin:django_counters_counterincident_changelist")
    kind = f"{incidents}?kind__exact=drift"
    assert f'href="{kind}"' in html_of(viewer, url)
    assert "a" in texts(html_of(viewer, kind), "td")
    assert incidents not in html_of(login("view_counter"), url)


def test_what_has_to_be_done_and_how(viewer: Client, url: str, problems: None) -> None:
    page = html_of(viewer, url)
    assert texts(page, "code") == ["manage.py counters upkeep rollup", "manage.py counters verify"]
    assert "Nothing has to be done." not in page
    # A Redis that is away is named without its password.
    assert any(text.startswith("It does not answer: ") for text in texts(page, "td"))
    assert "secret" not in page


def test_wrong_settings(viewer: Client, url: str) -> None:
    with override_settings(COUNTERS={"likes": {"STRATEGY": "shardet"}}):
        page = html_of(viewer, url)
    assert texts(page, "code") == ["manage.py check"]
    assert texts(page, "h2") == ["What has to be done"]


@changes_schema
def test_a_part_of_the_database_that_is_away(viewer: Client, url: str) -> None:
    with renamed_column("django_counters_counterincident", "found_at"):
        page = html_of(viewer, url)
    (told,) = [text for text in texts(page, "li") if text.startswith("incidents: ")]
    assert "found_at" in told
    # Asked before the part that is away, and after it.
    assert {"Ledger", "Rates"} <= set(texts(page, "h2"))
    assert "Nothing has to be done." not in page


def test_names_are_escaped(viewer: Client, url: str) -> None:
    CounterShard.objects.increment("<script>alert(1)</script>:x")
    CounterSource.objects.create(source="<b>gone</b>", slot=0, seen_at=clock.now())
    page = html_of(viewer, url)
    assert "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;gone" in page
    assert "<script>alert" not in page
    assert "<b>gone" not in page


def test_who_has_counted_most(viewer: Client, url: str) -> None:
    tune = Tune.objects.create(pk=4711)
    tune.hearts.increment(3)
    with override_counters(hits={"TOP": ["day", "week"], "UNIQUE": ["week"]}):
        for number in range(1, 8):
            Counter.objects.increment(f"hits:{number}", number, who=number)
        Counter.objects.increment("hits:7", who="ann")
        page = html_of(viewer, url)
    found = texts(page, "td")
    first = found.index("hits:7")
    assert found[first : first + 15 : 3] == [f"hits:{number}" for number in (7, 6, 5, 4, 3)]
    assert found[first + 2 : first + 15 : 3] == ["2", "1", "1", "1", "1"]
    assert "hits:2" not in found
    rows = texts(page, "th")
    assert rows.count("hits, week") == 5
    of_tune = found.index(str(tune.pk))
    assert found[of_tune + 1] == "3"
    assert not found[of_tune + 2].isdigit()
    assert {"testapp.Tune.hearts, week", "testapp.Tune.plays, day"} <= set(rows)


@pytest.mark.django_db(databases=["default", "other"])
def test_what_is_in_another_database(viewer: Client, url: str) -> None:
    CounterShard.objects.increment("elsewhere:a", using="other")
    page = html_of(viewer, url)
    assert 'href="?database=other"' in page
    assert "elsewhere" not in page
    assert "elsewhere" in html_of(viewer, f"{url}?database=other")
    assert viewer.get(f"{url}?database=nowhere").status_code == 404
