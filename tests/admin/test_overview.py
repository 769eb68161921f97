"""The overview in the admin: who sees it, what it says, and that it is sound HTML."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest
from django.test import Client, RequestFactory, override_settings
from django.urls import reverse

from django_counters import clock
from django_counters.admin import CounterAdmin
from django_counters.models import Counter, CounterIncident, CounterShard, CounterSource
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from tests.admin.conftest import Login

pytestmark = pytest.mark.django_db
NOBODY = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://:secret@127.0.0.1:1/0",
    }
}
_VOID = {"meta", "link", "input", "br", "img", "path", "symbol"}


class Page(HTMLParser):
    """What a page is made of: its elements with their attributes, and the text in them."""

    def __init__(self, client: Client, url: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        response = client.get(url)
        assert response.status_code == 200, response.status_code
        self.source = response.content.decode()
        self.feed(self.source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open.pop() == tag, f"{tag} at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.texts.append((self._open[-1], " ".join(data.split())))

    def all(self, tag: str) -> list[str]:
        """The texts that stand directly in elements of a kind."""
        return [text for found, text in self.texts if found == tag]

    def links(self) -> dict[str, str]:
        """The addresses that links lead to."""
        return {str(attrs["href"]): tag for tag, attrs in self.elements if tag == "a"}


@pytest.fixture
def url() -> str:
    return reverse("admin:django_counters_overview")


@pytest.fixture
def problems() -> Iterator[None]:
    """Something has to be done, and a Redis cannot be reached."""
    CounterShard.objects.increment("likes:a")
    record(CounterIncident.Kind.DRIFT, "a", {"expected": 1, "found": 2}, "default")
    with override_settings(CACHES=NOBODY), override_counters(views={"STRATEGY": "cached"}):
        yield


class TestWhoSeesIt:
    def test_nobody_who_has_not_logged_in(self, client: Client, url: str) -> None:
        response = client.get(url)
        assert response.status_code == 302
        assert "/login/" in response.headers["Location"]

    def test_nobody_without_the_permission(self, login: Login, nobody: Client, url: str) -> None:
        assert nobody.get(url).status_code == 403
        others = login("view_counterincident", "view_counteradjustment", "adjust_counter")
        assert others.get(url).status_code == 403

    def test_whoever_may_view_counters(self, login: Login, root: Client, url: str) -> None:
        assert login("view_counter").get(url).status_code == 200
        assert root.get(url).status_code == 200

    @pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
    def test_it_is_only_looked_at(self, root: Client, url: str, method: str) -> None:
        assert getattr(root, method)(url).status_code == 405

    def test_a_project_can_keep_it_from_somebody(self, rf: RequestFactory, root: Client) -> None:
        class Narrow(CounterAdmin):
            def has_overview_permission(self, request: HttpRequest) -> bool:
                return False

        request = rf.get("/")
        request.user = User.objects.get(username="root")
        with pytest.raises(PermissionDenied):
            Narrow(Counter, admin.site).overview_view(request)


class TestWaysToIt:
    def test_from_the_page_of_the_app(self, viewer: Client, login: Login, url: str) -> None:
        app = reverse("admin:app_list", args=["django_counters"])
        assert url in Page(viewer, app).links()
        assert url not in Page(login("view_counterincident"), app).links()

    def test_from_the_list_of_counters(self, viewer: Client, url: str) -> None:
        counters = reverse("admin:django_counters_counter_changelist")
        assert url in Page(viewer, counters).links()

    def test_back_again(self, viewer: Client, url: str) -> None:
        page = Page(viewer, url)
        assert reverse("admin:app_list", args=["django_counters"]) in page.links()

    def test_to_the_incidents_for_whoever_may_see_them(
        self, viewer: Client, login: Login, url: str, problems: None
    ) -> None:
        incidents = reverse("admin:django_counters_counterincident_changelist")
        links = Page(viewer, url).links()
        assert incidents in links
        kind = f"{incidents}?kind__exact=drift"
        assert kind in links
        shown = Page(viewer, kind)
        assert "a" in [*shown.all("td"), *shown.all("a"), *shown.all("th")]
        assert not [link for link in Page(login("view_counter"), url).links() if incidents in link]


class TestWhatItSays:
    def test_that_nothing_has_to_be_done(self, viewer: Client, url: str) -> None:
        page = Page(viewer, url)
        assert page.all("h1") == ["Overview"]
        assert "Nothing has to be done." in page.all("p")
        assert page.all("code") == []

    def test_what_has_to_be_done_and_how(self, viewer: Client, url: str, problems: None) -> None:
        page = Page(viewer, url)
        assert page.all("code") == ["manage.py counters rollup", "manage.py counters verify"]
        assert "Nothing has to be done." not in page.source

    def test_a_redis_that_is_away_without_its_password(
        self, viewer: Client, url: str, problems: None
    ) -> None:
        page = Page(viewer, url)
        assert any(text.startswith("It does not answer: ") for text in page.all("td"))
        assert "secret" not in page.source

    def test_wrong_settings(self, viewer: Client, url: str) -> None:
        with override_settings(COUNTERS={"likes": {"STRATEGY": "shardet"}}):
            page = Page(viewer, url)
        assert page.all("code") == ["manage.py check"]
        assert page.all("h2") == ["What has to be done"]

    def test_a_part_of_the_database_that_is_away(self, viewer: Client, url: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE django_counters_counterincident RENAME COLUMN found_at TO seen"
            )
        page = Page(viewer, url)
        (told,) = [text for text in page.all("li") if text.startswith("incidents: ")]
        assert "found_at" in told
        assert "Ledger" in page.all("h2")
        assert "Nothing has to be done." not in page.source

    def test_how_many_wait_for_a_second_person(self, viewer: Client, url: str) -> None:
        assert "0 adjustments wait for a second person." in Page(viewer, url).all("p")

    def test_names_are_escaped(self, viewer: Client, url: str) -> None:
        CounterShard.objects.increment("<script>alert(1)</script>:x")
        CounterSource.objects.create(source="<b>gone</b>", slot=0, seen_at=clock.now())
        page = Page(viewer, url)
        assert "<script>alert(1)</script>" in page.all("th")
        assert "<b>gone</b>" in page.all("th")

    def test_numbers_are_written_as_the_reader_does(self, viewer: Client, url: str) -> None:
        CounterShard.objects.bulk_create(
            CounterShard(key=f"likes:{number}", shard=0, value=1) for number in range(1234)
        )
        with override_settings(LANGUAGE_CODE="de", USE_THOUSAND_SEPARATOR=True):
            page = Page(viewer, url)
        assert "1.234" in page.all("td")
        assert "0,0" in page.all("td")

    def test_another_database(self, viewer: Client, url: str) -> None:
        links = Page(viewer, url).links()
        assert "?database=other" in links
        assert viewer.get(f"{url}?database=nowhere").status_code == 404

    @pytest.mark.django_db(databases=["default", "other"])
    def test_what_is_in_another_database(self, viewer: Client, url: str) -> None:
        CounterShard.objects.increment("elsewhere:a", using="other")
        assert "elsewhere" not in Page(viewer, url).all("th")
        assert "elsewhere" in Page(viewer, f"{url}?database=other").all("th")


class TestSoundness:
    def test_a_strict_policy_for_content_holds(
        self, viewer: Client, url: str, problems: None
    ) -> None:
        page = Page(viewer, url)
        for tag, attrs in page.elements:
            assert tag != "style"
            assert "style" not in attrs, tag
            assert not [name for name in attrs if name.startswith("on")], tag
            assert tag != "script" or attrs.get("src"), "an inline script"

    def test_headings_tables_and_cells_say_what_they_are(
        self, viewer: Client, url: str, problems: None
    ) -> None:
        page = Page(viewer, url)
        headings = [tag for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
        assert headings == ["h1"] + ["h2"] * 6
        tags = [tag for tag, _ in page.elements]
        begins = [number for number, tag in enumerate(tags) if tag == "table"]
        assert len(begins) >= 5
        named = {attrs.get("aria-labelledby") for _, attrs in page.elements}
        ours = [attrs["id"] for tag, attrs in page.elements if tag == "h2"]
        assert set(ours) <= named
        for number in begins:
            assert tags[number + 1] == "caption"
        assert all(attrs.get("scope") for tag, attrs in page.elements if tag == "th")
