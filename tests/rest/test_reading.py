"""Reading over HTTP: values, what a cache may keep, and that it never counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.models.query import ModelIterable
from django.test.utils import CaptureQueriesContext

from django_counters.cached.flush import flush
from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.testing import override_counters
from tests.rest.conftest import ALL, API, API_TESTS, KINDS, NAMESPACES, OPEN, As, problem
from tests.testapp.models import Article, Leaflet, Page, Post, Song

pytestmark = API_TESTS
# What everybody sees at once, and what may be as old as the total beside it.
AT_ONCE = {"exact", "sharded", "ledger", "exact field", "slotted field"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_counted_is_read(kind: str, keys: dict[str, str], as_: As) -> None:
    reader, key = as_("anonymous"), keys[kind]
    rows = list(Counter.objects.values())
    # What was never counted is zero, and asking for it makes no row.
    assert [reader.at(key, action).json()["value"] for action in ("", "exact")] == [0, 0]
    assert list(Counter.objects.values()) == rows
    assert as_("user").do("increment", key, {"by": 7}).status_code == 200
    exact, usual = reader.at(key, "exact"), reader.at(key)
    assert exact.status_code == usual.status_code == 200
    assert exact["Content-Type"] == usual["Content-Type"] == "application/json"
    body = exact.json()
    assert (body["key"], body["value"], body["consistency"]) == (key, 7, "exact")
    assert set(body) == {"key", "value", "as_of", "consistency"}
    assert body["as_of"].endswith("Z")
    body = usual.json()
    assert (body["key"], body["value"]) == (key, 7)
    assert body["consistency"] == ("exact" if kind in AT_ONCE else "cached")


class Children(ModelIterable):  # type: ignore[type-arg]
    """Instances of the children, as django-polymorphic loads them."""

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            yield getattr(one, "leaflet", one)


def test_records_that_are_children_with_a_key_of_their_own(as_: As) -> None:
    pages = [Page.objects.create(), *(Leaflet.objects.create(code=code) for code in ("1", "a"))]
    for by, page in enumerate(pages):
        page.hits.increment(by)
    records = Page.objects.all()
    records._iterable_class = Children
    expose(Page, "hits", **ALL, records=records)
    keys = [f"testapp.Page.hits:{page.id}" for page in pages]
    reader = as_("user")
    assert [reader.at(key, "exact").json()["value"] for key in keys] == [0, 1, 2]
    counters = reader.bulk("read", {"keys": keys, "consistency": "exact"}).json()["counters"]
    assert {each["key"]: each["value"] for each in counters} == dict(
        zip(keys, (0, 1, 2), strict=True)
    )


@pytest.mark.parametrize("kind", ["exact", "cached", "exact field", "cached field"])
def test_who_has_it_already_is_told_so(kind: str, keys: dict[str, str], as_: As) -> None:
    reader, key = as_("anonymous"), keys[kind]
    as_("user").do("increment", key)
    for action, kept in (("", "public, max-age=5"), ("exact", "public, no-cache")):
        first = reader.at(key, action)
        assert (first["ETag"], first["Cache-Control"]) == ('W/"1"', kept)
        again = reader.at(key, action, HTTP_IF_NONE_MATCH='W/"0", W/"1"')
        assert (again.status_code, again.content) == (304, b"")
        assert (again["ETag"], again["Cache-Control"]) == ('W/"1"', kept)
    head = reader.head(f"{API}/counters/{key}")
    assert (head.status_code, head.content) == (200, b"")
    assert (head["ETag"], head["Cache-Control"]) == ('W/"1"', "public, max-age=5")
    as_("user").do("increment", key)
    news = reader.at(key, "exact", HTTP_IF_NONE_MATCH='W/"1"')
    assert (news.status_code, news.json()["value"]) == (200, 2)


def test_no_other_method_than_its_own_counts(as_: As) -> None:
    root, path = as_("superuser"), f"{API}/counters/likes:a"
    for action in ("increment", "decrement", "adjust"):
        for method in ("get", "head", "put", "patch", "delete", "options"):
            answer = getattr(root, method)(f"{path}/{action}")
            assert (answer.status_code, answer["Allow"]) == (405, "POST"), (method, action)
    # Keys may have slashes.
    for read in (path, f"{path}/b", f"{path}/b/exact"):
        answer = root.post(read)
        assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD"), read
    assert not Counter.objects.exists()


def test_a_private_counter_is_kept_by_nobody_else(as_: As) -> None:
    staff = as_("staff")
    staff.do("increment", "inside:a")
    assert staff.at("inside:a")["Cache-Control"] == "private, max-age=5"
    assert staff.at("inside:a", "exact")["Cache-Control"] == "private, no-cache"
    assert staff.at("inside:a", "history")["Cache-Control"] == "private, max-age=60"


def test_a_cache_may_keep_it_as_long_as_the_total_may_be_old(as_: As) -> None:
    views: dict[str, Any] = {**NAMESPACES["views"], "OPTIONS": {"timeout": 10, "max_age": 90}}
    with override_counters(views=views):
        assert as_("anonymous").at("views:a")["Cache-Control"] == "public, max-age=90"


@pytest.mark.parametrize("key", ["likes:a", "sums:a", "orders:a"])
def test_a_read_is_one_statement(key: str, as_: As) -> None:
    as_("user").do("increment", key)
    reader = as_("anonymous")
    with CaptureQueriesContext(connection) as queries:
        assert reader.at(key).json()["value"] == 1
    assert len(queries) == 1


class TestWithoutRedis:
    """The cached value is the one that is in the database; the exact one nobody can tell."""

    DEAD = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0", "API": OPEN}

    def test_many(self, as_: As) -> None:
        reader = as_("anonymous")
        as_("user").do("increment", "views:a", {"by": 5})
        as_("user").do("increment", "likes:a", {"by": 2})
        flush()
        with override_counters(views=self.DEAD):
            asked = {"keys": ["views:a", "likes:a"]}
            problem(reader.at("views:a", "exact"), 503, "unavailable")
            assert reader.at("views:a").json()["consistency"] == "landed"
            found = reader.bulk("read", asked).json()["counters"]
            assert [(each["value"], each["consistency"]) for each in found] == [
                (5, "landed"),
                (2, "exact"),
            ]
            away = reader.bulk("read", {**asked, "consistency": "exact"})
            problem(away, 503, "unavailable")


class TestMany:
    def test_they_are_read_in_the_order_that_was_asked_for(
        self, keys: dict[str, str], as_: As
    ) -> None:
        user = as_("user")
        for number, key in enumerate(keys.values(), 1):
            assert user.do("increment", key, {"by": number}).status_code == 200
        backwards = [*reversed(keys.values())]
        for consistency in ("cached", "exact"):
            answer = user.bulk("read", {"keys": backwards, "consistency": consistency})
            assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
            body = answer.json()
            found = [(each["key"], each["value"]) for each in body["counters"]]
            assert found == [*zip(backwards, range(len(keys), 0, -1), strict=True)]
            known = {each["key"]: each["consistency"] for each in body["counters"]}
            late = {"cached"} if consistency == "cached" else {"exact"}
            assert {known[keys[kind]] for kind in ("cached", "cached field")} == late
            assert body["unknown"] == []

    def test_unknown_and_forbidden_are_listed_alike(self, fields: Any, as_: As) -> None:
        asked = ["guarded:a", "likes:a", "nowhere:a", "secret:a", "testapp.Post.likes:0", "plain"]
        body = as_("user").bulk("read", {"keys": [*asked, "likes:a"]}).json()
        assert [each["key"] for each in body["counters"]] == ["likes:a"]
        assert body["unknown"] == [key for key in asked if key != "likes:a"]

    def test_five_hundred_are_few_statements(self, fields: Any, as_: As) -> None:
        posts = Post.objects.bulk_create(Post(likes=n) for n in range(120))
        songs = Song.objects.bulk_create(Song(plays=n) for n in range(120))
        articles = Article.objects.bulk_create(Article(reads=n) for n in range(120))
        asked = [f"{ns}:{n}" for ns in ("likes", "views") for n in range(70)]
        for name, records in (("Post.likes", posts), ("Song.plays", songs)):
            asked += [f"testapp.{name}:{record.pk}" for record in records]
        asked += [f"testapp.Article.reads:{record.pk}" for record in articles]
        assert len(asked) == 500
        reader = as_("anonymous")
        # The type of a record and what Redis is are looked up once in a process.
        reader.bulk("read", {"keys": asked})
        for consistency in ("cached", "exact"):
            with CaptureQueriesContext(connection) as queries:
                found = reader.bulk("read", {"keys": asked, "consistency": consistency}).json()
            values = [each["value"] for each in found["counters"]]
            assert values == [0] * 140 + [*range(120)] * 3
            assert len(queries) <= 10
