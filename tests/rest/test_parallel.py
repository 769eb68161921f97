"""Many requests at once, in the processes of a real server: each key counts once, limits hold."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from rest_framework.test import APIClient

pytest.importorskip("gunicorn", reason="gunicorn is not installed")
from rest_framework_simplejwt.tokens import AccessToken

from django_counters.models import Counter
from django_counters.rest import base, expose
from django_counters.rest.throttling import limit
from django_counters.testing import override_counters
from tests.concurrency.crowd import Threads, at_once, in_turns
from tests.rest.asking import pass_lease
from tests.rest.site import NAMESPACES, OPEN, ORIGIN, Site, Told, serving
from tests.stores.redis.counting import eventually
from tests.testapp.models import Post, Ticket

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
MANY = 100
PATIENCE = 60
KINDS = ["exact", "cached", "cached field"]
# Each server takes seconds to start: the rest with --slow.
FEW = ["exact", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]
IN_DATABASE = {"SITE_LIMITS": "database", "SITE_CACHE": "redis"}
LOCMEM = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
Ask = Callable[..., Told]


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


@pytest.fixture
def options() -> dict[str, str]:
    return {}


@pytest.fixture
def site(cached: str, tmp_path: Path, options: dict[str, str]) -> Iterator[Site]:
    """A server of two processes on the database and the Redis of the test."""
    database = str(connection.settings_dict["NAME"])
    with serving(tmp_path, SITE_DATABASE=database, SITE_PREFIX=cached, **options) as site:
        yield site
        # Shown where the test fails.
        print(site.log())


@pytest.fixture
def inside(cached: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """The same in this process: whoever asks has a thread."""
    field: Any = Ticket._meta.get_field("scans")
    monkeypatch.setitem(vars(field), "recipe", field.recipe._replace(timeout=10))
    monkeypatch.setattr(base, "limit", partial(limit, timeout=10))
    with override_counters(**NAMESPACES), override_settings(ROOT_URLCONF="tests.rest.urls"):
        expose(Ticket, "scans", **OPEN)
        yield ask_inside


def ask_inside(who: str, counter: str, by: int = 1, key: str = "", **headers: str) -> Told:
    given = {f"HTTP_{name.upper().replace('-', '_')}": text for name, text in headers.items()}
    if key:
        given["HTTP_IDEMPOTENCY_KEY"] = key
    answer = APIClient().post(
        f"/api/v1/counters/{counter}/increment",
        {"by": by},
        format="json",
        HTTP_AUTHORIZATION=f"Bearer {who}",
        **given,  # type: ignore[arg-type]
    )
    found = {name.lower(): value for name, value in answer.headers.items()}
    return Told(answer.status_code, answer.json(), found)


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
    def test_in_threads(self, inside: Ask, who: str, key: str) -> None:
        told = in_turns(lambda _: inside(who, key, 3, "one"), MANY)
        assert_counted_once(told, 3)
        assert inside(who, key, 3, "one").replayed

    @pytest.mark.parametrize("key", FEW, indirect=True)
    def test_of_two_users(self, site: Site, who: str, key: str) -> None:
        users = [who, someone("bob")]
        told = at_once(lambda n: site.increment(users[n % 2], key, 3, "one"), MANY)
        for number in range(2):
            values = {one.body["value"] for one in told[number::2] if one.status == 200}
            assert len(values) == 1
        assert site.value(key) == 6

    @pytest.mark.parametrize("key", FEW, indirect=True)
    @pytest.mark.parametrize("point", ["before", "after"])
    def test_of_a_process_that_is_killed(self, site: Site, who: str, key: str, point: str) -> None:
        """By SIGKILL, before or after it counts: once, or it says that it does not know."""
        site.doom(point)
        assert site.increment(who, key, 3, "one").status == 0
        assert not site.is_doomed()
        assert eventually(site.answers, PATIENCE)
        told = site.increment(who, key, 3, "one")
        if not key.startswith("likes"):
            assert (told.status, told.kind) == (409, "in-progress")
            pass_lease()
            told = site.increment(who, key, 3, "one")
        if key.startswith("testapp"):
            assert (told.status, told.kind) == (504, "outcome-unknown")
            assert site.value(key) == (3 if point == "after" else 0)
        else:
            assert (told.status, told.body["value"], site.value(key)) == (200, 3, 3)


def assert_ten(site: Site, told: list[Told], namespace: str) -> None:
    assert Sums(one.status for one in told) == {200: 10, 429: MANY - 10}
    assert all(int(one.headers["retry-after"]) > 0 for one in told if one.status == 429)
    assert sum(site.value(f"{namespace}:{number}") for number in range(3)) == 10


class TestALimitOfTen:
    @pytest.mark.parametrize("options", [{}, IN_DATABASE], ids=["redis", "sql"])
    def test_in_two_processes(self, site: Site, who: str) -> None:
        told = at_once(lambda n: site.increment(who, f"limited:{n % 3}"), MANY)
        assert_ten(site, told, "limited")

    @pytest.mark.parametrize(
        ("options", "hops"),
        [({}, "10.0.0.{}"), ({"SITE_PROXIES": "1"}, "10.0.0.{}, 192.0.2.1")],
        ids=["no proxy", "one proxy"],
    )
    def test_whatever_address_a_client_pretends_to_have(self, site: Site, hops: str) -> None:
        def pretend(number: int) -> Told:
            headers = {"Origin": ORIGIN, "X-Forwarded-For": hops.format(number)}
            return site.increment("", f"beacons:{number % 3}", 1, "", **headers)

        assert_ten(site, at_once(pretend, MANY), "beacons")

    @pytest.mark.parametrize("store", ["redis", "sql"])
    def test_in_threads(self, inside: Ask, who: str, store: str) -> None:
        declared = LOCMEM if store == "sql" else {}
        with override_settings(**({"CACHES": declared} if declared else {})):
            told = in_turns(lambda n: inside(who, f"limited:{n % 3}"), MANY)
        assert Sums(one.status for one in told) == {200: 10, 429: MANY - 10}
        assert sum(Counter.objects.values_of([f"limited:{n}" for n in range(3)]).values()) == 10

    def test_is_one_of_each_user(self, site: Site, who: str) -> None:
        users = [who, someone("bob")]
        told = at_once(lambda n: site.increment(users[n % 2], "limited:a"), MANY)
        assert [sum(one.status == 200 for one in told[n::2]) for n in range(2)] == [10, 10]


def twenty(kind: str) -> list[str]:
    """The keys of counters of a kind."""
    if kind == "records":
        return [f"testapp.Post.likes:{Post.objects.create().pk}" for _ in range(20)]
    return [f"{kind}:{number}" for number in range(20)]


@pytest.mark.parametrize(
    ("kind", "keyed", "rounds"),
    [
        ("likes", True, 15),
        *(
            pytest.param(kind, keyed, 30, marks=pytest.mark.slow)
            for kind in ("likes", "views", "records")
            for keyed in (True, False)
        ),
    ],
)
def test_bulks_in_opposite_orders(
    site: Site, who: str, kind: str, keyed: bool, rounds: int
) -> None:
    """Over the same counters: nobody waits for ever, and all is counted."""
    names = twenty(kind)
    crowd = 4

    def work(number: int) -> list[int]:
        order = names[:: 1 if number % 2 else -1]
        body = {"counters": [{"key": name, "by": 1} for name in order]}
        keys = [f"{number}-{turn}" if keyed else "" for turn in range(rounds)]
        return [site.post(who, "bulk/increment", body, key).status for key in keys]

    statuses = [status for told in Threads(crowd).run(work) for status in told]
    assert Sums(statuses) == {200: rounds * crowd}
    assert {site.value(name) for name in names} == {rounds * crowd}
