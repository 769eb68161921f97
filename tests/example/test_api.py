"""The API of the example: beacons of its pages, tokens for programs, and the page to try it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse

from django_counters import OutcomeUnknown
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from example_project import api, csp, seeds
from example_project import settings as of_the_example
from example_project.blog.models import Post
from example_project.server import serving
from example_project.wsgi import application
from tests.example.beacons import ORIGIN, increment, send
from tests.example.test_staff import INLINE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _as_the_example_declares_it() -> Iterator[None]:
    with override_counters(**of_the_example.COUNTERS):
        yield


@pytest.fixture
def post() -> Post:
    return Post.objects.create(title="Count last", slug="count-last", body="Others wait.")


def counts(post: Post) -> tuple[int, int]:
    found = Post.objects.with_counts("views", "likes").get(pk=post.pk)
    return int(found.views), int(found.likes)


class TestBeacons:
    """Whoever reads a post may count one view and one like, from a page of this site."""

    def test_they_count_for_who_is_not_logged_in(self, client: Client, post: Post) -> None:
        told = send(client, post, "likes").json()
        assert (told["key"], told["value"], told["applied"]) == (
            f"blog.Post.likes:{post.pk}",
            1,
            1,
        )
        assert send(client, post, "views").json()["value"] == 1
        assert counts(post) == (1, 1)

    @pytest.mark.parametrize("origin", ["", "null", "https://example.org", "http://localhost:9"])
    @pytest.mark.parametrize("field", ["views", "likes"])
    def test_another_site_is_refused(
        self, client: Client, post: Post, field: str, origin: str
    ) -> None:
        refused = send(client, post, field, Origin=origin)
        assert refused.status_code == 403
        assert refused.json()["type"] == "urn:django-counters:origin"
        assert client.generic("POST", increment(post, field)).status_code == 403
        assert counts(post) == (0, 0)

    def test_a_get_of_the_address_counts_nothing(self, client: Client, post: Post) -> None:
        answer = client.get(increment(post, "likes"), headers={"Origin": ORIGIN})
        assert answer.status_code in (404, 405)
        assert counts(post) == (0, 0)

    @pytest.mark.parametrize("logged_in", [False, True])
    def test_one_call_counts_one(self, client: Client, post: Post, logged_in: bool) -> None:
        if logged_in:
            client.force_login(User.objects.create_user("anna"))
        answer = client.post(
            increment(post, "likes"),
            {"by": 2},
            content_type="application/json",
            headers={"Origin": ORIGIN},
        )
        assert (answer.status_code, counts(post)) == (400, (0, 0))

    def test_a_like_that_is_sent_again_counts_once(self, client: Client, post: Post) -> None:
        first = send(client, post, "likes", Idempotency_Key="a-press-of-the-button")
        again = send(client, post, "likes", Idempotency_Key="a-press-of-the-button")
        assert again["Idempotent-Replayed"] == "true"
        assert again.json() == {**first.json(), "replayed": True}
        assert counts(post) == (0, 1)

    def test_a_view_whose_answer_is_lost_is_unknown(
        self, client: Client, post: Post, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: object, **__: object) -> None:
            raise OutcomeUnknown(using="default")

        monkeypatch.setattr("django_counters.stores.redis.pending.RedisPending.send", lost)
        answer = send(client, post, "views")
        assert answer.status_code == 504
        assert answer.json()["type"] == "urn:django-counters:outcome-unknown"

    def test_a_session_needs_the_token_of_the_page(self, post: Post) -> None:
        browser = Client(enforce_csrf_checks=True, HTTP_HOST=urlsplit(ORIGIN).netloc)
        browser.force_login(User.objects.create_user("anna"))
        assert send(browser, post, "likes").status_code == 403
        page = browser.get(post.get_absolute_url()).content.decode()
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert send(browser, post, "likes", X_CSRFToken=token).status_code == 200
        assert counts(post) == (0, 1)

    def test_the_page_names_what_it_counts(self, client: Client, post: Post) -> None:
        page = client.get(post.get_absolute_url()).content.decode()
        assert f'data-view="{increment(post, "views")}"' in page
        assert f'data-api="{increment(post, "likes")}"' in page


class TestWhatIsOpen:
    """Everybody reads; nobody counts or adjusts what is not declared."""

    def test_anybody_reads(self, client: Client, post: Post) -> None:
        Counter.objects.increment("orders:shop", 3)
        answer = client.get("/api/v1/counters/orders:shop")
        assert answer.json()["value"] == 3
        assert client.get(f"/api/v1/counters/blog.Post.likes:{post.pk}/exact").status_code == 200
        history = client.get("/api/v1/counters/orders:shop/history").json()
        assert (history["source"], history["points"][-1]["change"]) == ("ledger", 3)

    @pytest.mark.parametrize("key", ["orders:shop", "visits:shop", "downloads:post-1"])
    def test_what_the_site_counts_itself_is_counted_by_nobody(
        self, admin_client: Client, key: str
    ) -> None:
        for action in ("increment", "decrement"):
            answer = admin_client.generic("POST", f"/api/v1/counters/{key}/{action}")
            assert answer.status_code == 403
        assert Counter.objects.value(key) == 0

    def test_what_is_not_declared_is_not_there(self, admin_client: Client) -> None:
        Counter.objects.increment("page:/")
        for key in ("page:/", "shop.Product.stock:1", "nothing:a"):
            assert admin_client.get(f"/api/v1/counters/{key}").status_code == 404


def asked(
    connection: HTTPConnection, method: str, path: str, body: object = None, token: str = ""
) -> tuple[int, dict[str, Any]]:
    """Ask as curl does, and return the status and what the answer says."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, headers)
    with connection.getresponse() as response:
        return response.status, json.loads(response.read())


@pytest.fixture
def connection(post: Post) -> Iterator[HTTPConnection]:
    """A connection to a server, which knows the staff."""
    seeds.add_demo_users()
    with serving(application, 0) as port:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        yield connection
        connection.close()


def token_of(connection: HTTPConnection, name: str, kind: str = "access") -> str:
    status, told = asked(connection, "POST", "/api/token/", {"username": name, "password": name})
    assert status == 200
    token: str = told[kind]
    return token


@pytest.mark.postgres
class TestTokens:
    """A program logs in by a name and a password, over a real connection."""

    def test_with_one_a_like_needs_no_site(self, connection: HTTPConnection, post: Post) -> None:
        assert asked(connection, "POST", increment(post, "likes"))[0] == 403
        token = token_of(connection, "clerk")
        status, told = asked(connection, "POST", increment(post, "likes"), token=token)
        assert (status, told["value"], counts(post)) == (200, 1, (0, 1))

    def test_the_clerk_adjusts_and_the_boss_does_not(
        self, connection: HTTPConnection, post: Post
    ) -> None:
        path = f"/api/v1/counters/blog.Post.likes:{post.pk}/adjust"
        body = {"by": 5, "reason": "Likes of the old blog"}
        assert asked(connection, "POST", path, body)[0] == 401
        assert asked(connection, "POST", path, body, token_of(connection, "boss"))[0] == 403
        assert asked(connection, "POST", path, body, token_of(connection, "clerk"))[0] == 200
        assert counts(post) == (0, 5)
        assert CounterAdjustment.objects.get().actor_name == "clerk"

    def test_it_can_be_renewed(self, connection: HTTPConnection, post: Post) -> None:
        refresh = {"refresh": token_of(connection, "clerk", "refresh")}
        status, told = asked(connection, "POST", "/api/token/refresh/", refresh)
        assert status == 200
        assert asked(connection, "POST", increment(post, "likes"), token=told["access"])[0] == 200

    def test_a_wrong_one_is_refused(self, connection: HTTPConnection, post: Post) -> None:
        token = token_of(connection, "clerk")[:-4] + "AAAA"
        status, told = asked(connection, "POST", increment(post, "likes"), token=token)
        assert (status, told["title"], counts(post)) == (401, "Unauthorized", (0, 0))

    def test_passwords_are_not_guessed(
        self, connection: HTTPConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(api.Guesses, "rate", "2/min")
        body = {"username": "clerk", "password": "wrong"}
        tried = [asked(connection, "POST", "/api/token/", body)[0] for _ in range(3)]
        assert tried == [401, 401, 429]


class TestDocs:
    """The page to try the API: all of it comes from this site, under the policy of the site."""

    @pytest.fixture(autouse=True)
    def _as_the_example_serves_it(self) -> Iterator[None]:
        with override_settings(
            INSTALLED_APPS=of_the_example.INSTALLED_APPS,
            MIDDLEWARE=of_the_example.MIDDLEWARE,
            REST_FRAMEWORK=of_the_example.REST_FRAMEWORK,
            SECURE_CSP=of_the_example.SECURE_CSP,
            STATICFILES_DIRS=of_the_example.STATICFILES_DIRS,
        ):
            yield

    def test_it_needs_no_other_site(self, client: Client) -> None:
        page = client.get(reverse("api-docs")).content.decode()
        wanted = re.findall(r'(?:src|href|data-schema)="([^"]+)"', page)
        assert len(wanted) > 4
        for address in wanted:
            assert address.startswith("/")
            answer = client.get(address)
            answer.close()
            assert answer.status_code == 200, address
        assert INLINE.findall(page) == []

    def test_its_policy_differs_by_the_pictures_alone(self, client: Client) -> None:
        site = client.get("/blog/")[csp.HEADER].split("; ")
        docs = client.get(reverse("api-docs"))[csp.HEADER].split("; ")
        assert set(docs) ^ set(site) == {"img-src 'self' data:"}

    def test_the_schema_has_the_api_and_the_tokens(
        self, client: Client, capsys: pytest.CaptureFixture[str]
    ) -> None:
        paths = client.get(reverse("api-schema"), {"format": "json"}).json()["paths"]
        assert {"/api/v1/counters/{key}/increment", "/api/v1/bulk/read", "/api/token/"} <= {*paths}
        assert capsys.readouterr().err == ""
