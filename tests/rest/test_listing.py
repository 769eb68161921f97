"""The counters of a namespace, page by page over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.http import urlsafe_base64_encode
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from django_counters.cached.flush import flush
from django_counters.models import Counter
from django_counters.rest.targets import Target
from django_counters.rest.views import ListView
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.limits.test_throttling import throttle
from tests.rest.conftest import API, API_TESTS, NAMED, NAMESPACES, As, Client, problem

pytestmark = API_TESTS
MOST_PAGES = 20
HIDDEN = ("guarded", "secret", "nowhere", "default", "counters.created")


def ask(who: Client, namespace: str = "likes", **parameters: Any) -> Any:
    return who.get(f"{API}/counters", {"namespace": namespace, **parameters})


def pages(who: Client, **parameters: Any) -> Iterator[list[str]]:
    """The keys of each page, by the addresses that the answers give."""
    answer = ask(who, **parameters)
    for _ in range(MOST_PAGES):
        assert answer.status_code == 200, answer.content
        body = answer.json()
        yield [one["key"] for one in body["results"]]
        if body["next"] is None:
            return
        answer = who.get(body["next"])
    pytest.fail("The list has no end.")


def keys(who: Client, **parameters: Any) -> list[str]:
    return [key for page in pages(who, **parameters) for key in page]


@pytest.fixture
def reader(as_: As) -> Client:
    return as_("anonymous")


def test_a_page(reader: Client) -> None:
    Counter.objects.increment_many({f"likes:{name}": 3 for name in "cab"})
    answer = ask(reader, limit=2)
    assert (answer.status_code, answer["Cache-Control"]) == (200, "private, no-cache")
    assert answer["Vary"] == "Authorization, Cookie"
    body = answer.json()
    assert set(body) == {"next", "previous", "results"}
    assert body["previous"] is None
    assert body["next"].startswith(f"http://testserver{API}/counters?")
    moments = {one.pop("as_of") for one in body["results"]}
    assert len(moments) == 1
    assert moments.pop().endswith("Z")
    told = {"value": 3, "consistency": "exact"}
    assert body["results"] == [{"key": "likes:a", **told}, {"key": "likes:b", **told}]
    last = reader.get(body["next"]).json()
    assert [one["key"] for one in last["results"]] == ["likes:c"]
    assert last["next"] is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8])
def test_all_of_them_are_there_once_in_order(limit: int, reader: Client) -> None:
    # Bytes decide, on every server: capital letters come first, and no letter is another.
    names = ["A", "Z", "a", "a/b", "é", "\N{GREEK SMALL LETTER OMEGA}", "\N{GRINNING FACE}"]
    Counter.objects.increment_many({f"likes:{name}": 1 for name in names})
    for other in ("like:a", "likes", "likes;", "likesx:a", "stock:a"):
        Counter.objects.increment(other)
    found = list(pages(reader, limit=limit))
    assert [key for page in found for key in page] == [f"likes:{name}" for name in names]
    # An empty last page would be a request for nothing.
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert len(found) == -(-len(names) // limit)


def test_what_begins_with_a_text(reader: Client) -> None:
    names = ["2025-12", "2026", "2026-01", "2026-02", "2027", "a%", "a_", "aB", "ab", "Ab", "b"]
    Counter.objects.increment_many({f"likes:{name}": 1 for name in names})
    for prefix in ("", "2026-", "2026", "a", "a%", "a_", "A", "ab", "nothing", " ", "é", "'"):
        wanted = sorted(f"likes:{name}" for name in names if name.startswith(prefix))
        for limit in (1, 2, 100):
            assert keys(reader, prefix=prefix, limit=limit) == wanted


def test_what_is_counted_meanwhile_moves_nothing(reader: Client) -> None:
    Counter.objects.increment_many({f"likes:{name}": 1 for name in "bdfh"})
    walk = pages(reader, limit=2)
    assert next(walk) == ["likes:b", "likes:d"]
    for name in "acegi":
        Counter.objects.increment(f"likes:{name}")
    # The one that the cursor stands for is deleted, too.
    Counter.objects.filter(key="likes:d").delete()
    assert [key for page in walk for key in page] == [f"likes:{name}" for name in "efghi"]


@pytest.mark.parametrize("strategy", NAMED)
def test_values_are_exact(strategy: str, reader: Client, as_: As) -> None:
    key, user = NAMED[strategy], as_("user")
    # Of a part it is known that it is in the row, and the other part waits.
    user.do("increment", key, {"by": 4})
    flush()
    rollup()
    user.do("increment", key, {"by": 3})
    (found,) = ask(reader, key.partition(":")[0]).json()["results"]
    assert (found["key"], found["value"], found["consistency"]) == (key, 7, "exact")


def test_without_redis_nobody_can_tell(reader: Client) -> None:
    Counter.objects.increment("views:a", 5)
    flush()
    dead = {**NAMESPACES["views"], "CACHE": "redis://127.0.0.1:1/0"}
    with override_counters(views=dead):
        problem(ask(reader, "views"), 503, "unavailable")


def test_a_page_is_two_statements(reader: Client) -> None:
    Counter.objects.increment_many({f"likes:{number}": 1 for number in range(201)})
    cursor = urlsafe_base64_encode(b"likes:0")
    for asked in ({"limit": 1}, {"limit": 200, "cursor": cursor}):
        with CaptureQueriesContext(connection) as queries:
            assert len(ask(reader, **asked).json()["results"]) == asked["limit"]
        assert len(queries) == 2
        assert all("COUNT(" not in query["sql"].upper() for query in queries)
    assert len(ask(reader).json()["results"]) == 100


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"namespace": ""}, "namespace"),
        *(({"limit": wrong}, "limit") for wrong in ("0", "-1", "1.0", "x", "501", "", ["1", "2"])),
        *(
            ({"cursor": wrong}, "cursor")
            for wrong in (
                *("", "!", "bGlrZXM6YQ==", "bGlrZXM6YQ\n", "_w", "x" * 1068, ["bGlrZXM6YQ"] * 2),
                *(urlsafe_base64_encode(key) for key in (b"stock:a", b"likes", b"likes:a\0")),
            )
        ),
        ({"prefix": "x" * 201}, "prefix"),
        ({"prefix": "a\0"}, "prefix"),
        ({"prefix": ["a", "b"]}, "prefix"),
        ({"page": "2"}, "page"),
    ],
)
def test_what_is_wrong(reader: Client, parameters: dict[str, Any], field: str) -> None:
    found = problem(ask(reader, **{"namespace": "likes", **parameters}), 400, "invalid")
    assert [one["field"] for one in found["errors"]] == [field]


def test_a_cursor_is_one_of_its_list(reader: Client) -> None:
    Counter.objects.increment_many({"likes:a1": 1, "likes:b1": 1, "likes:b2": 1})
    cursor = urlsafe_base64_encode(b"likes:a1")
    assert keys(reader, cursor=cursor) == ["likes:b1", "likes:b2"]
    problem(ask(reader, cursor=cursor, prefix="b"), 400, "invalid")


def test_who_may(as_: As) -> None:
    statuses = {
        name: [ask(as_(role), name).status_code for role in ("anonymous", "user", "staff")]
        for name in (
            "likes",
            "inside",
            "guarded",
            "secret",
            "nowhere",
            "default",
            "counters.created",
        )
    }
    assert statuses == {
        "likes": [200] * 3,
        "inside": [401, 404, 200],
        **{name: [401, 404, 404] for name in HIDDEN},
    }
    problem(ask(as_("superuser"), "testapp.Post.likes"), 404)
    assert as_("superuser").post(f"{API}/counters", {}).status_code == 405


class OfTheYear(BasePermission):
    """Admits to what the names of one year begin with."""

    asked: ClassVar[list[str]] = []

    def has_object_permission(self, request: Request, view: APIView, obj: Target) -> bool:
        self.asked.append(obj.key)
        return obj.key.startswith("likes:2026")


@pytest.mark.parametrize(("read", "status"), [("anyone", 403), ("staff", 404)])
def test_a_permission_of_the_project_is_asked_for_the_beginning_of_all_keys(
    read: str, status: int, reader: Client
) -> None:
    Counter.objects.increment_many({"likes:2025": 1, "likes:2026": 1, "likes:2026-01": 1})
    OfTheYear.asked.clear()
    with override_counters(likes={"API": {"read": read, "list": f"{__name__}.OfTheYear"}}):
        assert keys(reader, prefix="2026") == ["likes:2026", "likes:2026-01"]
        for prefix in ("", "202", "2025"):
            problem(ask(reader, prefix=prefix), status)
    assert OfTheYear.asked == ["likes:2026", "likes:", "likes:202", "likes:2025"]


def test_to_read_is_not_to_list(as_: As) -> None:
    """A page that shows one counter to everybody does not tell which others there are."""
    Counter.objects.increment("likes:a")
    with override_counters(likes={"API": {"read": "anyone"}}):
        problem(ask(as_("anonymous")), 401)
        problem(ask(as_("superuser")), 403)


def test_a_row_that_is_no_counter_is_passed_over(reader: Client) -> None:
    Counter.objects.increment("likes:b")
    Counter._base_manager.create(key="likes:a b", value=7)
    assert list(pages(reader, limit=1)) == [[], ["likes:b"]]


def test_it_is_throttled_as_other_reads(reader: Client) -> None:
    with patch.object(ListView, "throttle_classes", [throttle(rate="1/day", cache=None)]):
        assert [ask(reader).status_code for _ in range(2)] == [200, 429]
