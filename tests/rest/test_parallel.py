"""Many requests at once, in the processes of a real server: each key counts once."""

from __future__ import annotations

import secrets
from collections import Counter as Sums
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection

pytest.importorskip("gunicorn", reason="gunicorn is not installed")
from rest_framework_simplejwt.tokens import AccessToken

from tests.concurrency.crowd import Threads, at_once
from tests.conftest import forget_pending
from tests.redis.counting import eventually
from tests.rest.asking import pass_lease
from tests.rest.site import Site, Told, serving
from tests.testapp.models import Post, Ticket

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
MANY = 100
PATIENCE = 60
KINDS = ["exact", "cached", "cached field"]


@pytest.fixture
def who() -> str:
    return someone("ann")


def someone(name: str) -> str:
    """The JWT of a new user."""
    return str(AccessToken.for_user(User.objects.create_user(name)))


@pytest.fixture
def key(request: pytest.FixtureRequest, db: None) -> str:
    """The key of a counter of a kind."""
    if request.param == "cached field":
        return f"testapp.Ticket.scans:{Ticket.objects.create().pk}"
    return {"exact": "likes:a", "cached": "views:a"}[request.param]


@pytest.fixture(scope="module")
def server(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, str]]:
    """A server of two processes on the database of the tests, and what is apart in Redis."""
    prefix, name = secrets.token_hex(6), str(connection.settings_dict["NAME"])
    with serving(
        tmp_path_factory.mktemp("site"), SITE_DATABASE=name, SITE_PREFIX=prefix
    ) as running:
        yield running, prefix


@pytest.fixture
def site(transactional_db: None, server: tuple[Site, str]) -> Iterator[Site]:
    """A server, in whose database and Redis there is nothing."""
    site, prefix = server
    yield site
    # Shown where the test fails.
    print(site.log())
    forget_pending("default", prefix)


def assert_counted_once(told: list[Told], value: int) -> None:
    assert {one.status for one in told} <= {200, 409}
    done = [one for one in told if one.status == 200]
    assert {one.body["value"] for one in done} == {value}
    assert sum(not one.replayed for one in done) == 1
    assert {one.kind for one in told if one.status == 409} <= {"in-progress"}


class TestOneKey:
    @pytest.mark.parametrize("key", KINDS, indirect=True)
    def test_in_two_processes(self, site: Site, who: str, key: str) -> None:
        told = at_once(lambda _: site.increment(who, key, 3, "one"), MANY)
        assert_counted_once(told, 3)
        last = site.increment(who, key, 3, "one")
        assert (last.status, last.replayed, last.body["value"]) == (200, True, 3)
        assert site.value(key) == 3

    @pytest.mark.parametrize("key", KINDS, indirect=True)
    @pytest.mark.parametrize("point", ["before", "after"])
    def test_of_a_process_that_is_killed(self, site: Site, who: str, key: str, point: str) -> None:
        """By SIGKILL, before or after it counts: once, or it says that it does not know."""
        site.doom(point)
        assert site.increment(who, key, 3, "one").status == 0
        assert not site.is_doomed()

        answers: list[Told] = []

        def again() -> Told:
            answers.append(site.increment(who, key, 3, "one"))
            return answers[-1]

        if key.startswith("likes"):
            # The database takes a moment to see that somebody has died.
            assert eventually(lambda: again().status == 200, PATIENCE)
            assert {answer.status for answer in answers} <= {0, 200, 409}
        else:
            assert eventually(site.answers, PATIENCE)
            assert (again().status, again().kind) == (409, "in-progress")
            pass_lease()
        told = again()
        if key.startswith("testapp"):
            assert (told.status, told.kind) == (504, "outcome-unknown")
            assert site.value(key) == (3 if point == "after" else 0)
        else:
            assert (told.status, told.body["value"], site.value(key)) == (200, 3, 3)


@pytest.mark.parametrize(
    "kind", ["likes", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("views", "Post"))]
)
def test_bulks_in_opposite_orders(site: Site, who: str, kind: str) -> None:
    """Over the same counters: nobody waits for ever, and all is counted."""
    names = [f"{kind}:{number}" for number in range(20)]
    if kind == "Post":
        names = [f"testapp.Post.likes:{Post.objects.create().pk}" for _ in range(20)]
    crowd, rounds = 4, 15

    def work(number: int) -> list[int]:
        order = names[:: 1 if number % 2 else -1]
        body = {"counters": [{"key": name, "by": 1} for name in order]}
        keys = [f"{number}-{turn}" if number < 2 else "" for turn in range(rounds)]
        return [site.post(who, "bulk/increment", body, key).status for key in keys]

    statuses = [status for told in Threads(crowd).run(work) for status in told]
    assert Sums(statuses) == {200: rounds * crowd}
    assert {site.value(name) for name in names} == {rounds * crowd}
