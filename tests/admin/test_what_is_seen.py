"""What somebody sees in the admin: the look of this version of Django, and exact numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import django
import pytest
from django.contrib import admin
from django.db import connection
from django.db.models.query import ModelIterable
from django.http import HttpRequest
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from pytest_django import DjangoAssertNumQueries

from django_counters.admin import CounterFieldsAdmin
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterIncident,
    CounterShard,
)
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.admin.conftest import make
from tests.admin.reading import html_of, rows_of, text_of
from tests.admin.test_overview import NOBODY
from tests.admin.test_permissions import adjust_address
from tests.testapp.models import Article, Review, Song

pytestmark = pytest.mark.django_db
# Since then the crumbs are a list, and the base has a block for tools beside the title.
IS_NEW = django.VERSION >= (6, 1)
LIST = "admin:django_counters_counter_changelist"
PAGE = "admin:django_counters_counter_change"


class SongAdmin(CounterFieldsAdmin):
    # Changed in the list, which wants its rows as a queryset.
    list_display = ("id", "title", "plays")
    list_editable = ("title",)


class Children(ModelIterable):  # type: ignore[type-arg]
    """Instances of the children, as django-polymorphic loads them."""

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            yield getattr(one, "review", one)


class ArticleAdmin(CounterFieldsAdmin):
    list_display = ("title", "reads")

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        rows._iterable_class = Children
        return rows


site = admin.AdminSite(name="studio")
site.register(Song, SongAdmin)
site.register(Article, ArticleAdmin)
urlpatterns = [path("studio/", site.urls)]


def pages() -> list[str]:
    return [
        reverse("admin:django_counters_overview"),
        reverse("admin:django_counters_counter_change", args=("a",)),
        adjust_address("a"),
    ]


@pytest.mark.parametrize("page", range(3))
def test_crumbs_are_those_of_this_version_of_django(root: Client, page: int) -> None:
    make("a")
    html = html_of(root, pages()[page])
    theirs = html_of(root, reverse(LIST))
    crumbs = r'<(\w+) class="breadcrumbs">'
    assert re.findall(crumbs, html) == re.findall(crumbs, theirs) == ["ol" if IS_NEW else "div"]
    assert html.count("<ol") == html.count("</ol>") == int(IS_NEW)


def test_adjust_stands_where_django_has_its_tools(root: Client) -> None:
    make("a")
    html = html_of(root, reverse("admin:django_counters_counter_change", args=("a",)))
    assert html.count('class="object-tools"') == 1
    tools, content = html.index('class="object-tools"'), html.index('id="content-main"')
    assert (tools < content) == IS_NEW


class TestTheOverview:
    def shown(self, client: Client) -> str:
        return text_of(html_of(client, reverse("admin:django_counters_overview")))

    def test_a_request_that_waits_is_something_to_do(self, viewer: Client) -> None:
        assert "Nothing has to be done." in self.shown(viewer)
        AdjustmentRequest.objects.create(
            **{"field": "", "key": "a", "by": 1, "expected": 0, "reason": "-"},
            requester_name="clerk",
        )
        shown = self.shown(viewer)
        assert "1 adjustment waits for a second person." in shown
        assert "Nothing has to be done." not in shown

    def test_a_restart_of_redis_is_none(self, viewer: Client) -> None:
        record(CounterIncident.Kind.HISTORY, "default", {}, "default")
        shown = self.shown(viewer)
        assert "Nothing has to be done." in shown
        assert "Redis was started again, or another one took over" in shown


class TestWhatIsNotListed:
    def shown(self, client: Client) -> str:
        return text_of(html_of(client, reverse(LIST)))

    def test_shards_without_a_total_are_told_of(self, viewer: Client) -> None:
        with override_counters(likes={"STRATEGY": "sharded"}):
            for number in range(3):
                Counter.objects.increment("likes:a", shard_key=number)
            CounterShard.objects.increment("likes:b")
            told = "2 counters wait for their first rollup and are not in this list yet: manage.py"
            shown = self.shown(viewer)
            assert told in shown
            assert "likes:a : 3" in shown
            page = html_of(
                viewer, reverse("admin:django_counters_counter_change", args=["likes:a"])
            )
            assert ">3</p>" in page
            narrowed = text_of(html_of(viewer, reverse(LIST), q="likes:B"))
            assert "1 counter waits" in narrowed
            assert "likes:a" not in narrowed
            rollup()
            shown = self.shown(viewer)
        assert "likes:a" in shown
        assert "first rollup" not in shown

    @pytest.mark.urls("tests.admin.site")
    def test_but_nobody_who_may_not_see_them_all(self, viewer: Client) -> None:
        CounterShard.objects.increment("hidden:a")
        assert "first rollup" not in text_of(html_of(viewer, reverse(LIST)))
        page = reverse(PAGE, args=["hidden:a"])
        assert viewer.get(page).status_code == 302


@pytest.mark.urls(__name__)
class TestRecords:
    def listed(self, client: Client, model: str) -> list[str]:
        """The last column of the list."""
        html = html_of(client, reverse(f"admin:testapp_{model}_changelist"))
        (table,) = re.findall(r'<table id="result_list">.*?</table>', html, re.S)
        return [row[-1] for row in rows_of(table)[1:]]

    def test_what_waits_in_slots_is_in_list_and_page(
        self, root: Client, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        first, second = Song.objects.create(title="A"), Song.objects.create(title="B")
        first.plays.increment(1234)
        second.plays.increment(2)
        assert set(Song.objects.values_list("plays", flat=True)) == {0}
        assert sorted(self.listed(root, "song")) == ["1234", "2"]
        html = html_of(root, reverse("admin:testapp_song_change", args=(first.pk,)))
        assert shown_in(html, "plays") == "1234"
        page = reverse("admin:testapp_song_changelist")
        with CaptureQueriesContext(connection) as two:
            root.get(page)
        Song.objects.bulk_create([Song(title="C") for _ in range(20)])
        with django_assert_num_queries(len(two)):
            root.get(page)

    def test_children_among_the_records(self, root: Client, cached: str) -> None:
        for number, model in enumerate((Article, Article, Review), 1):
            model.objects.create().reads.increment(number, immediately=True)
        assert self.listed(root, "article") == ["3", "2", "1"]

    def test_what_waits_in_redis_is_there_too_unless_redis_is_away(
        self, root: Client, cached: str
    ) -> None:
        article = Article.objects.create(title="A")
        article.reads.increment(7, immediately=True)
        page = reverse("admin:testapp_article_change", args=(article.pk,))
        assert self.listed(root, "article") == ["7"]
        assert shown_in(html_of(root, page), "reads") == "7"
        told = "Redis cannot be reached. reads is shown without what waits there."
        with override_settings(CACHES=NOBODY):
            assert self.listed(root, "article") == ["0"]
            assert told in text_of(html_of(root, page))
            assert told in text_of(html_of(root, reverse("admin:testapp_article_changelist")))
        assert told not in text_of(html_of(root, page))


def shown_in(html: str, field: str) -> str:
    """What a page shows of a field that cannot be typed over."""
    found = re.search(rf'field-{field}.*?class="readonly">(.*?)</div>', html, re.S)
    assert found is not None
    return found[1]
