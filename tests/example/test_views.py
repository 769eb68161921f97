"""Views of the blog by country and day: how they are counted, and where they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_counters.cached.flush import flush
from example_project.blog.countries import DAYS, cells, table_of
from example_project.blog.models import Post
from example_project.countries import COUNTED_AS_HEADER, LATEST, Cell, cell_of
from example_project.live import charts
from example_project.live.views import CACHE_KEY
from example_project.tally import Tally, Watched
from tests.admin.reading import rows_of

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


@pytest.fixture
def post() -> Post:
    return Post.objects.create(title="A", slug="a", body="b")


def see(client: Client, post: Post, country: str = "", seen: object = "") -> Any:
    """A view, as the page tells it."""
    headers = {"X-Country": country} if country else {}
    return client.post(reverse("view", args=[post.pk]), {"seen": seen}, headers=headers)


def counted(post: Post) -> dict[tuple[str, str], int]:
    flush()
    found = cells(Post.objects.all(), DAYS)
    return {(one.country, one.day): number for one, number in found.items() if number}


def day(moment: datetime) -> str:
    return moment.date().isoformat()


def test_a_view_counts_under_its_country_and_its_day(client: Client, post: Post) -> None:
    now = timezone.now()
    for country, seen in (("DE", ""), ("DE", (now - DAY).isoformat()), ("FR", ""), ("", "")):
        response = see(client, post, country, seen)
        assert response.status_code == 200
        told = day(now - DAY if seen else now)
        assert response[COUNTED_AS_HEADER] == f"{country} {told}"
    assert response.json() == {"value": 4}
    assert counted(post) == {
        ("DE", day(now)): 1,
        ("DE", day(now - DAY)): 1,
        ("FR", day(now)): 1,
        ("", day(now)): 1,
    }


def test_a_day_is_that_of_utc_whatever_clock_the_database_has(client: Client, post: Post) -> None:
    early = timezone.now().astimezone(UTC).replace(hour=1, minute=0)
    seen = early if early < timezone.now() else early - DAY
    told = see(client, post, "DE", seen.isoformat())[COUNTED_AS_HEADER]
    assert told == f"DE {day(seen)}"
    assert counted(post) == {("DE", day(seen)): 1}


@pytest.mark.parametrize("country", ["~", "de", "DE|FR", "<b>", "D\N{LATIN SMALL LETTER E}"])
def test_what_cannot_be_a_country_is_not_told(client: Client, post: Post, country: str) -> None:
    see(client, post, country)
    assert {country for country, _ in counted(post)} == {""}


@pytest.mark.parametrize(
    "seen",
    [
        "yesterday",
        "0001-01-01T00:00:00+14:00",
        -LATEST - DAY,
        DAY,
    ],
)
def test_what_was_not_lately_is_refused(client: Client, post: Post, seen: str | timedelta) -> None:
    given = seen if isinstance(seen, str) else (timezone.now() + seen).isoformat()
    response = see(client, post, "DE", given)
    assert response.status_code == 400
    assert counted(post) == {}


def test_who_has_no_token_counts_nothing(post: Post) -> None:
    assert see(Client(enforce_csrf_checks=True), post, "DE").status_code == 403
    assert counted(post) == {}


def test_the_page_has_a_table_of_days_and_countries(client: Client, post: Post) -> None:
    now = timezone.now()
    assert "Views by country" not in client.get(post.get_absolute_url()).content.decode()
    for country, seen in (("DE", now), ("DE", now - DAY), ("FR", now), ("", now)):
        see(client, post, country, seen.isoformat())
    flush()
    rows = rows_of(client.get(post.get_absolute_url()).content.decode())
    assert rows[0] == ["Day", "DE", "not told", "FR"]
    assert [row[1:] for row in rows[1:3]] == [["1", "1", "1"], ["1", "0", "0"]]
    assert len(rows) == DAYS + 1 == len(table_of(post).rows) + 1


def test_the_live_page_has_the_top_of_the_week(client: Client, post: Post) -> None:
    other = Post.objects.create(title="Another one", slug="another-one", body="…")
    assert "Nothing has landed yet." in client.get(reverse("live")).content.decode()
    for seen in (post, other, other):
        see(client, seen, "DE")
    flush()
    cache.delete(CACHE_KEY)
    fragments = client.get(reverse("live-counts")).json()["fragments"]
    assert rows_of(fragments["top-week"]) == [["Another one", "2"], [post.title, "1"]]
    assert rows_of(fragments["top-rising"]) == [["Another one", "2", "0"], [post.title, "1", "0"]]


def test_the_live_page_moves_as_views_land(client: Client, post: Post) -> None:
    def shown() -> list[list[str]]:
        # No clear(): that would delete what other tests have in this Redis.
        cache.delete(CACHE_KEY)
        fragments = client.get(reverse("live-counts")).json()["fragments"]
        assert fragments["views-bars-hour"].startswith("<svg")
        return rows_of(fragments["views-rows-hour"])

    page = client.get(reverse("live")).content.decode()
    assert 'id="views-bars-hour"' in page
    assert 'id="views-rows-hour"' in page
    before = shown()
    assert len(before) == charts.HOURS
    see(client, post, "DE")
    see(client, post, "FR", (timezone.now() - timedelta(hours=3)).isoformat())
    flush()
    after = shown()
    assert [row[1] for row in before] == ["0"] * charts.HOURS
    assert sum(int(row[1]) for row in after) == 2
    assert after[-4][1] == "1"


def test_names_of_sums_and_cells_agree() -> None:
    for one in (Cell(3, "DE", "2026-11-23"), Cell(3, "", "2026-11-23")):
        assert cell_of(one.name()) == cell_of(one.name(known=False)) == one
        assert one.name() != one.name(known=False)
    assert cell_of("blog.Post.views:3") is None


def test_views_of_a_person_are_noted_at_the_edge() -> None:
    """With the country and the day that the answer tells; over the API there is no country."""
    tally = Tally()

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        start("200 OK", environ["answers"])
        return [environ.get("body", b"")]

    watched = Watched(application, tally)

    def ask(path: str, **given: Any) -> None:
        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path, "answers": [], **given}
        watched(environ, lambda *_: None)

    told = (COUNTED_AS_HEADER, "DE 2026-11-22")
    ask("/blog/3/view", answers=[told])
    ask("/blog/3/view", answers=[told, ("X-Counted", "unknown")])
    body = b'{"key": "blog.Post.views:3", "applied": 1, "replayed": false}'
    ask("/api/v1/counters/blog.Post.views:3/increment", body=body)
    sums = tally.sums()
    assert sums[Cell(3, "DE", "2026-11-22").name()] == 1
    assert sums[Cell(3, "DE", "2026-11-22").name(known=False)] == 1
    assert sum(sums[name] for name in sums if cell_of(name) and "::" in name) == 1
    assert (sums["blog.Post.views:3"], sums["unknown:blog.Post.views:3"]) == (2, 1)
