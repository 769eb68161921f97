"""What somebody has tried who does not believe the promises, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from django_counters.access import Access
from django_counters.errors import InvalidConfiguration, OutcomeUnknown, RetryTransaction
from django_counters.models import Counter
from django_counters.rest import expose
from django_counters.rest.base import AdmissionRefusal, admit
from django_counters.testing import assert_counts, override_counters
from tests.concurrency.servers import be_patient, connected, execute, hurry
from tests.rest.asking import assert_first, header
from tests.rest.conftest import OPEN, ORIGIN, As, Client, problem
from tests.testapp.models import Post, Release, Song, Track

pytestmark = [
    pytest.mark.django_db(databases=["default", "other"]),
    pytest.mark.urls("tests.rest.urls"),
    pytest.mark.usefixtures("namespaces"),
]
REDIS = "django.core.cache.backends.redis.RedisCache"
NOWHERE = "redis://127.0.0.1:1/0"
LONGEST_ANSWER = 2000
ORDER = {"by": 1, "reason": "none"}
commits = pytest.mark.django_db(transaction=True)
OUTSIDE = "tests.rest.test_hostile.Outside"


class TestBodiesThatAreMuchWorkForWhoAnswers:
    @pytest.mark.parametrize("field", ["keys", "counters"])
    def test_a_list_that_is_too_long_is_not_looked_into(self, as_: As, field: str) -> None:
        """Half a megabyte of it was answered, after some seconds, with thirteen megabytes."""
        items: list[object] = [1, {}, None, []]
        for item in items:
            body = {field: [item] * 20_000}
            answer = as_("anonymous").bulk({"keys": "read"}.get(field, "increment"), body)
            (error,) = problem(answer, 400, "invalid")["errors"]
            assert (error["field"], "500" in error["detail"]) == (field, True)

    @pytest.mark.parametrize("action", ["read", "increment"])
    def test_few_unknown_names_are_told(self, as_: As, action: str) -> None:
        body = {f"n{number}": number for number in range(20_000)}
        answer = as_("anonymous").bulk(action, body)
        assert len(problem(answer, 400, "invalid")["errors"]) < 10
        assert len(answer.content) < LONGEST_ANSWER


class TestRecords:
    def test_that_cannot_be_looked_up_are_refused_at_once(self) -> None:
        for records in (
            Post.objects.all()[:5],
            Post.objects.values("pk"),
            Post.objects.values_list("pk"),
            Post.objects.all().union(Post.objects.all()),
            Post.objects.select_for_update(),
            Post.objects,
            Song.objects.all(),
        ):
            wrong: Any = records
            with pytest.raises(InvalidConfiguration, match="records"):
                expose(Post, "likes", **OPEN, records=wrong)

    def test_of_a_child_may_have_another_key(self) -> None:
        with pytest.raises(InvalidConfiguration, match="records"):
            expose(Track, "plays", **OPEN, records=Release.objects.all())

    @pytest.mark.parametrize("consistency", ["cached", "exact"])
    def test_of_another_database_are_read_there(self, as_: As, consistency: str) -> None:
        """A bulk read the record with the same key in the database of the model."""
        here = Post.objects.create(likes=1)
        Post.objects.using("other").create(pk=here.pk, likes=40)
        expose(Post, "likes", **OPEN, records=Post.objects.using("other"))
        key, client = f"testapp.Post.likes:{here.pk}", as_("user")
        many = client.bulk("read", {"keys": [key], "consistency": consistency}).json()
        assert many["counters"][0]["value"] == client.at(key).json()["value"] == 40


class TestWhoHasNoUser:
    @pytest.fixture
    def stranger(self, monkeypatch: pytest.MonkeyPatch) -> Client:
        """Somebody who is not even an anonymous user."""
        monkeypatch.setattr(api_settings, "UNAUTHENTICATED_USER", None)
        return Client()

    @pytest.mark.parametrize("key", ["likes:a", "guarded:a", "inside:a", "nowhere:a"])
    def test_is_refused_also_where_that_is_none(self, key: str, stranger: Client) -> None:
        problem(stranger.do("increment", key), 401)
        problem(stranger.do("adjust", key, ORDER), 401)
        assert stranger.bulk("read", {"keys": [key, "inside:b"]}).json()["unknown"]

    def test_adjusts_nothing_whatever_a_class_of_the_project_says(self, stranger: Client) -> None:
        with override_counters(likes={"API": {"adjust": "rest_framework.permissions.AllowAny"}}):
            problem(stranger.do("adjust", "likes:a", ORDER), 401)

    def test_may_send_beacons_where_that_is_none(self, stranger: Client) -> None:
        assert stranger.do("increment", "hits:a", HTTP_ORIGIN=ORIGIN).json()["value"] == 1

    def test_sends_no_more_than_beacons_with_a_token_of_nobody(self) -> None:
        client = Client()
        token: Any = "that of a server"
        client.force_authenticate(AnonymousUser(), token)
        problem(client.do("increment", "hits:a", {"by": 1000}, HTTP_ORIGIN=ORIGIN), 400, "invalid")
        problem(client.do("increment", "hits:a"), 403, "origin")
        assert client.do("increment", "hits:a", HTTP_ORIGIN=ORIGIN).json()["value"] == 1


@contextmanager
def two_servers(prefix: str, detour: str) -> Iterator[None]:
    """``views`` are in a Redis, and ``zoo`` in another one, which is away."""
    here = {**settings.CACHES["default"], "KEY_PREFIX": prefix}
    caches = {"default": here, "gone": {"BACKEND": REDIS, "LOCATION": NOWHERE}}
    declared = {"STRATEGY": "cached", "ON_REDIS_DOWN": detour, "API": OPEN}
    zoo = {**declared, "CACHE": "gone"}
    views = {**declared, "OPTIONS": {"timeout": 10}}
    with override_settings(CACHES=caches), override_counters(views=views, zoo=zoo):
        yield


class TestAllOrNothing:
    @commits
    @pytest.mark.parametrize("detour", ["raise", "ledger", "exact"])
    def test_what_two_servers_keep_is_refused(self, as_: As, cached: str, detour: str) -> None:
        """One half was counted, and the answer was 504."""
        with two_servers(cached, detour):
            items = [{"key": "views:a", "by": 5}, {"key": "zoo:a", "by": 3}]
            answer = as_("user").bulk("increment", {"counters": items}, **header("one"))
            problem(answer, 400, "unsupported")
            assert Counter.objects.value("views:a") == 0

    @pytest.mark.many_writers
    @commits
    def test_one_half_is_never_nothing(self, cached: str) -> None:
        """An error of the database that has no name of ours came after one half was counted."""
        with two_servers(cached, "exact"), locked("zoo:a"), pytest.raises(OutcomeUnknown):
            Counter.objects.increment_many({"views:a": 5, "zoo:a": 3})


@contextmanager
def locked(key: str) -> Iterator[None]:
    """Somebody holds the row of a counter, and nobody waits for long."""
    Counter._base_manager.get_or_create(key=key)
    with connected("apart"):
        execute("BEGIN", using="apart")
        execute("UPDATE django_counters_counter SET value = value", using="apart")
        hurry(100)
        try:
            yield
        finally:
            be_patient()
            execute("ROLLBACK", using="apart")


@pytest.mark.many_writers
@commits
def test_a_key_is_free_again_after_any_error_that_says_not_counted(as_: As, cached: str) -> None:
    """It was in progress for ten seconds, and then unknown for two days."""
    client, asked = as_("user"), {"counters": [{"key": "zoo:a"}, {"key": "zoo:b"}]}
    with two_servers(cached, "exact"):
        with locked("zoo:a"):
            admit(["zoo:a", "zoo:b"], Access())
            for _ in range(2):
                problem(client.bulk("increment", asked, **header("one")), 503, "unavailable")
        assert_first(client.bulk("increment", asked, **header("one")))


class Outside(BasePermission):
    """Admits whoever is in no transaction."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        return not connection.in_atomic_block


@commits
def test_requests_are_no_transactions(as_: As, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is answered has been committed, whatever the project has by default."""
    client = as_("user")
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    with override_counters(likes={"API": dict.fromkeys(("read", "increment"), OUTSIDE)}):
        assert client.at("likes:a").status_code == 200
        assert client.do("increment", "likes:a", **header("one")).status_code == 200
        assert client.bulk("increment", {"counters": [{"key": "likes:a"}]}).status_code == 200


class TestAdmission:
    def test_names_without_number_cost_few_statements(self) -> None:
        """Each took a transaction of its own: 500 of them in a request."""
        names = [f"likes:{number}" for number in range(500)]
        for most, refusal in ((499, AdmissionRefusal.ROOM), (500, None)):
            with CaptureQueriesContext(connection) as captured:
                assert admit(names, Access(max_counters=most)) is refusal
            assert len(captured) < 20
        assert_counts({"counters.created:likes": 500})

    @pytest.mark.postgresql  # a check refuses such a transaction on MySQL
    @commits
    def test_one_that_is_made_unseen_is_no_error_of_the_server(self) -> None:
        """A transaction of the caller's that is REPEATABLE READ does not see it."""
        with connected("apart"), transaction.atomic():
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            execute("SELECT 1 FROM django_counters_counter")
            Counter._base_manager.using("apart").create(key="likes:a")
            with pytest.raises(RetryTransaction):
                admit(["likes:a"], Access())
        assert Counter.objects.value("counters.created:likes") == 0

    def test_a_namespace_may_have_a_long_name(self, as_: As) -> None:
        name = "n" * 190
        with override_counters(**{name: {"API": {**OPEN, "max_counters": 1}}}):
            client = as_("user")
            assert client.do("increment", f"{name}:a").json()["value"] == 1
            problem(client.do("increment", f"{name}:b"), 409, "namespace-full")
