"""Who may do what: every address of the app's admin, for everybody, and what nobody may do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from django_counters import clock
from django_counters.kinds.approval import ask
from django_counters.kinds.subject import named
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterAdjustment,
    CounterIncident,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.admin.conftest import Login
from tests.admin.site import HIDDEN
from tests.testapp.models import NewsPage, Page, Post, Product, Release, Song

pytestmark = pytest.mark.django_db
KEY = "stock:a"
SENT = {"how": "by", "number": "5", "reason": "counted by hand", "expected": "40"}
_VIEW = [f"view_{model}" for model in ("counter", "counteradjustment", "adjustmentrequest")]
_VIEW += ["view_counterincident"]
ROLES: dict[str, list[str]] = {
    "anonymous": [],
    "member": [],
    "staff": [],
    "view": _VIEW,
    "change": [*_VIEW, "add_counter", "change_counter", "delete_counter"],
    "adjust": ["adjust_counter"],
    "adjust+view": [*_VIEW, "adjust_counter"],
    "approve": ["approve_adjustment"],
    "approve+view": [*_VIEW, "approve_adjustment"],
    "superuser": [],
}
# A line for each address, a column for each role, in their order. Nobody who is not of the staff
# gets any further than to the page that logs in: "log".
TABLE = """
app                         log log 404 200 200 404 200 404 200 200
counter list                log log 403 200 200 403 200 403 200 200
counter list POST           log log 403 200 200 403 200 403 200 200
counter delete_selected     log log 403 200 200 403 200 403 200 200
counter page                log log 403 200 200 403 200 403 200 200
counter page POST           log log 405 405 405 405 405 405 405 405
counter chart               log log 403 200 200 403 200 403 200 200
counter export              log log 403 200 200 403 200 403 200 200
counter export POST         log log 405 405 405 405 405 405 405 405
counter overview            log log 403 200 200 403 200 403 200 200
counter history             log log 403 200 200 403 200 403 200 200
counter add                 log log 403 403 403 403 403 403 403 403
counter add POST            log log 403 403 403 403 403 403 403 403
counter delete              log log 403 403 403 403 403 403 403 403
counter delete POST         log log 403 403 403 403 403 403 403 403
adjust                      log log 403 403 403 403 200 403 403 200
adjust preview              log log 403 403 403 403 200 403 403 200
adjust confirm              log log 403 403 403 403 302 403 403 302
request list                log log 403 200 200 403 200 403 200 200
request list POST           log log 403 200 200 403 200 403 200 200
request delete_selected     log log 403 200 200 403 200 403 200 200
request page                log log 403 200 200 403 200 403 200 200
request page POST           log log 403 403 403 403 403 403 403 403
request history             log log 403 200 200 403 200 403 200 200
request add                 log log 403 403 403 403 403 403 403 403
request add POST            log log 403 403 403 403 403 403 403 403
request delete              log log 403 403 403 403 403 403 403 403
request delete POST         log log 403 403 403 403 403 403 403 403
request approve             log log 405 405 405 405 405 405 405 405
request approve POST        log log 403 403 403 403 403 403 302 302
request reject              log log 405 405 405 405 405 405 405 405
request reject POST         log log 403 403 403 403 403 403 302 302
adjustment list             log log 403 200 200 403 200 403 200 200
adjustment list POST        log log 403 200 200 403 200 403 200 200
adjustment delete_selected  log log 403 200 200 403 200 403 200 200
adjustment page             log log 403 200 200 403 200 403 200 200
adjustment page POST        log log 403 403 403 403 403 403 403 403
adjustment export           log log 403 200 200 403 200 403 200 200
adjustment history          log log 403 200 200 403 200 403 200 200
adjustment add              log log 403 403 403 403 403 403 403 403
adjustment add POST         log log 403 403 403 403 403 403 403 403
adjustment delete           log log 403 403 403 403 403 403 403 403
adjustment delete POST      log log 403 403 403 403 403 403 403 403
incident list               log log 403 200 200 403 200 403 200 200
incident list POST          log log 403 200 200 403 200 403 200 200
incident delete_selected    log log 403 200 200 403 200 403 200 200
incident page               log log 403 200 200 403 200 403 200 200
incident page POST          log log 403 403 403 403 403 403 403 403
incident history            log log 403 200 200 403 200 403 200 200
incident add                log log 403 403 403 403 403 403 403 403
incident add POST           log log 403 403 403 403 403 403 403 403
incident delete             log log 403 403 403 403 403 403 403 403
incident delete POST        log log 403 403 403 403 403 403 403 403
"""
ROWS = {line[:28].strip(): line[28:].split() for line in TABLE.strip().splitlines()}
CHANGING = ("adjust confirm", "request approve POST", "request reject POST")
MODELS = {
    "counter": "counter",
    "request": "adjustmentrequest",
    "adjustment": "counteradjustment",
    "incident": "counterincident",
}


@pytest.fixture(autouse=True)
def namespaces() -> Iterator[None]:
    with override_counters(stock={"FLOOR": 0, "APPROVE_ABOVE": 100}):
        yield


@pytest.fixture
def rows(db: None) -> dict[str, Any]:
    """One row of each model, by the name that the table has for it."""
    Counter.objects.increment(KEY, 30)
    return {
        "adjustment": Counter.objects.adjust(KEY, by=10, reason="a test", actor="x").pk,
        "counter": "stock_3Aa",
        "incident": CounterIncident.objects.create(
            kind="drift", subject=KEY, detail={}, found_at=clock.now()
        ).pk,
        "request": ask(named(KEY), to=500, expected=40, reason="a test", actor="x").pk,
    }


def client_of(role: str, login: Login) -> Client:
    """Somebody of a role; a member has all permissions, and is not of the staff."""
    if role == "anonymous":
        return Client()
    client = login(*ROLES[role], name=role, superuser=role == "superuser")
    if role == "member":
        member = User.objects.get(username="member")
        member.user_permissions.set(Permission.objects.all())
        User.objects.filter(pk=member.pk).update(is_staff=False)
    return client


def adjust_address(key: object, field: str = "") -> str:
    query = urlencode({"field": field, "key": str(key)})
    return f"{reverse('admin:django_counters_adjust')}?{query}"


def address(what: str, page: str, rows: dict[str, Any]) -> str:
    if what == "app":
        return reverse("admin:app_list", args=("django_counters",))
    if what == "adjust":
        return adjust_address(KEY)
    if page == "overview":
        return reverse("admin:django_counters_overview")
    name = {"list": "changelist", "delete_selected": "changelist", "page": "change"}.get(page, page)
    arguments = () if name in ("changelist", "export", "add") else (rows[what],)
    return reverse(f"admin:django_counters_{MODELS[what]}_{name}", args=arguments)


def asked_for(client: Client, line: str, rows: dict[str, Any]) -> str:
    """What an address of the table answers."""
    what, page, method, *_ = [*line.split(), "", "", ""]
    url = address(what, page, rows)
    data = {"_save": "Save", "post": "yes", "key": "new:a", "value": "9", "note": "no"} | SENT
    data |= {"token": str(mint(clock.utc())), "step": page, "state": "approved"}
    if page == "delete_selected":
        data |= {"action": page, "_selected_action": str(rows[what]), "index": "0"}
    if what == "adjust" and page:
        method = "POST"
    posts = method == "POST" or page == "delete_selected"
    response = client.post(url, data) if posts else client.get(url)
    if response.status_code == 302 and "/login/" in response["Location"]:
        return "log"
    if response.streaming:
        assert response.getvalue()
    return str(response.status_code)


def all_there_is() -> list[Any]:
    models = (Counter, CounterAdjustment, AdjustmentRequest, CounterIncident, LogEntry)
    return [list(model._base_manager.order_by("pk").values()) for model in models]


@pytest.mark.parametrize("role", ROLES)
def test_the_table(role: str, login: Login, rows: dict[str, Any]) -> None:
    client, column = client_of(role, login), list(ROLES).index(role)
    before, answers, changed = all_there_is(), {}, []
    for line in ROWS:
        with transaction.atomic():
            answers[line] = asked_for(client, line, rows)
            if all_there_is() != before:
                changed.append(line)
            transaction.set_rollback(True)
    assert answers == {line: statuses[column] for line, statuses in ROWS.items()}
    assert changed == [line for line in CHANGING if ROWS[line][column] == "302"]


def test_every_address_is_in_the_table(rows: dict[str, Any]) -> None:
    from django.urls import get_resolver
    from django.urls.resolvers import URLPattern, URLResolver

    def names(patterns: Any) -> Iterator[str]:
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                yield from names(pattern.url_patterns)
            elif isinstance(pattern, URLPattern) and pattern.name:
                yield pattern.name

    known = set()
    for line in ROWS:
        what, page, *_ = [*line.split(), ""]
        known.add(get_resolver().resolve(address(what, page, rows).partition("?")[0]).url_name)
    there = {name for name in names(get_resolver().url_patterns) if "django_counters_" in name}
    assert there <= known


class TestCraftedPosts:
    def test_the_counter_is_that_of_the_address(self, login: Login, rows: dict[str, Any]) -> None:
        """Hidden fields that name another one mean nothing."""
        Product.objects.create(pk=1, stock=5)
        Counter.objects.increment("other:a", 40)
        client = login("view_counter", "adjust_counter")
        data = SENT | {"step": "confirm", "token": str(mint(clock.utc()))}
        data |= {"key": "other:a", "field": "testapp.Product.stock", "to": "9", "by": "9"}
        data |= {"actor": "somebody", "approver": "somebody", "request_id": "x"}
        client.post(adjust_address(KEY), data)
        assert Counter.objects.values_of([KEY, "other:a"]) == {KEY: 45, "other:a": 40}
        row = CounterAdjustment.objects.first()
        assert row is not None
        assert (row.actor_name, row.approver_name, row.request_id) == ("user0", "", "")

    @pytest.mark.parametrize(
        "field",
        [
            *("shop.Product.stock", "shop.Product.name", "shop.Product.made_up", "shop.Nothing.x"),
            *("nonsense", ".", "..", "auth.User.password", "auth.User.kudos", "a\0b.c.d"),
        ],
    )
    @pytest.mark.parametrize("key", ["1", "", "x", "1.5", "9" * 30, "\0", "-1"])
    def test_who_sees_counters_sees_no_records(self, login: Login, field: str, key: str) -> None:
        client = login("view_counter", "adjust_counter")
        url = adjust_address(key, field)
        assert client.get(url).status_code in (403, 404)
        data = SENT | {"step": "confirm", "token": str(mint(clock.utc()))}
        assert client.post(url, data).status_code in (403, 404)
        assert not CounterAdjustment.objects.exists()

    @pytest.mark.parametrize(
        "field",
        [
            *("City.trips", "Country.visits", "Device.events", "Product.stock", "Song.kudos"),
            *("Lyrics.reads", "Abstract.opens", "Moment.kudos", "NewsPage.hits", "Derived.doubled"),
        ],
    )
    def test_no_key_is_a_mistake_of_the_server(self, root: Client, field: str) -> None:
        for key in ("", "x", "1", "-1", "1.5", "9" * 30, "9" * 5000, "\0", "a\0b", "ü" * 400, "٣"):
            with transaction.atomic():
                assert root.get(adjust_address(key, f"testapp.{field}")).status_code == 404

    @pytest.mark.parametrize("decision", ["approve", "reject"])
    def test_nobody_decides_on_their_own(self, login: Login, decision: str) -> None:
        root = login(name="root", superuser=True)
        user = User.objects.get(username="root")
        request = ask(named(KEY), to=500, expected=0, reason="a test", actor=user)
        url = reverse(f"admin:django_counters_adjustmentrequest_{decision}", args=(request.pk,))
        User.objects.filter(pk=user.pk).update(username="somebody else")
        assert root.post(url, {"expected": "0", "note": "no"}).status_code == 403
        request.refresh_from_db()
        assert (request.state, Counter.objects.value(KEY)) == ("waiting", 0)

    def test_a_permission_that_is_taken_away_is_gone_at_the_next_step(
        self, login: Login, rows: dict[str, Any]
    ) -> None:
        client = login("view_counter", "adjust_counter", name="clerk")
        data = SENT | {"step": "preview", "token": str(mint(clock.utc()))}
        assert client.post(adjust_address(KEY), data).status_code == 200
        adjust = Permission.objects.get(codename="adjust_counter")
        User.objects.get(username="clerk").user_permissions.remove(adjust)
        assert client.post(adjust_address(KEY), data | {"step": "confirm"}).status_code == 403
        assert Counter.objects.value(KEY) == 40


@pytest.mark.urls("tests.admin.site")
class TestRecords:
    """Who may adjust a counter of a record says the admin of its model."""

    @pytest.fixture
    def clerk(self, login: Login) -> Client:
        client = login("adjust_counter", name="clerk")
        models = ("post", "song", "newspage", "release")
        found = Permission.objects.filter(codename__in=[f"view_{model}" for model in models])
        User.objects.get(username="clerk").user_permissions.add(*found)
        return client

    def status(self, client: Client, key: object, field: str) -> int:
        url = adjust_address(key, field)
        status = client.get(url).status_code
        data = SENT | {"expected": "0", "step": "confirm", "token": str(mint(clock.utc()))}
        sent = client.post(url, data).status_code
        assert (status, sent) in ((200, 302), (403, 403), (404, 404))
        return status

    def test_a_record_that_is_shown(self, clerk: Client) -> None:
        post = Post.objects.create()
        page = clerk.get(reverse("admin:testapp_post_change", args=(post.pk,))).content.decode()
        for name in ("views", "likes"):
            link = adjust_address(post.pk, f"testapp.Post.{name}")
            assert f'href="{link.replace("&", "&amp;")}">Adjust {name}<' in page
            assert f'name="{name}"' not in page
        assert self.status(clerk, post.pk, "testapp.Post.views") == 200
        post.refresh_from_db()
        assert post.views == 5

    def test_no_link_without_the_permission(self, login: Login) -> None:
        client = login(name="viewer")
        view = Permission.objects.get(codename="view_post", content_type__app_label="testapp")
        User.objects.get(username="viewer").user_permissions.add(view)
        post = Post.objects.create()
        page = client.get(reverse("admin:testapp_post_change", args=(post.pk,)))
        assert page.status_code == 200
        assert "adjust/?" not in page.content.decode()
        assert self.status(client, post.pk, "testapp.Post.views") == 403

    @pytest.mark.parametrize(("title", "status"), [(HIDDEN, 404), ("private", 403)])
    def test_a_record_that_is_not(self, clerk: Client, title: str, status: int) -> None:
        post = Post.objects.create(title=title)
        assert self.status(clerk, post.pk, "testapp.Post.views") == status
        assert self.status(clerk, post.pk + 1, "testapp.Post.views") == 404
        assert not CounterAdjustment.objects.exists()

    def test_a_model_that_may_not_be_viewed(self, clerk: Client) -> None:
        product = Product.objects.create()
        # Not even whether there is one is said.
        for key in (product.pk, product.pk + 1):
            assert self.status(clerk, key, "testapp.Product.stock") == 403

    def test_slots_with_and_without_a_column(self, clerk: Client) -> None:
        song = Song.objects.create()
        SlottedCounter.objects.increment(song, "kudos")
        SlottedCounter.objects.decrement(song, "kudos")
        for name in ("plays", "kudos"):
            assert self.status(clerk, song.pk, f"testapp.Song.{name}") == 200
            assert CounterAdjustment.objects.filter(field=f"testapp.Song.{name}").exists()

    def test_an_inherited_counter_is_adjusted_by_who_sees_the_child(self, clerk: Client) -> None:
        news, release = NewsPage.objects.create(), Release.objects.create(code="x")
        parent = Page.objects.create()
        assert self.status(clerk, news.pk, "testapp.NewsPage.hits") == 200
        assert self.status(clerk, parent.pk, "testapp.NewsPage.hits") == 404
        assert self.status(clerk, news.pk, "testapp.Page.hits") == 403
        assert self.status(clerk, release.track_id, "testapp.Release.plays") == 200
        page = clerk.get(reverse("admin:testapp_release_change", args=("x",))).content.decode()
        link = adjust_address(release.track_id, "testapp.Release.plays")
        assert f'href="{link.replace("&", "&amp;")}"' in page

    def test_a_model_without_an_admin_asks_for_its_permission(
        self, login: Login, clerk: Client
    ) -> None:
        page = Page.objects.create()
        assert self.status(clerk, page.pk, "testapp.Page.hits") == 403
        view = Permission.objects.get(codename="view_page", content_type__app_label="testapp")
        User.objects.get(username="clerk").user_permissions.add(view)
        assert self.status(clerk, page.pk, "testapp.Page.hits") == 200
        assert self.status(clerk, page.pk + 1, "testapp.Page.hits") == 404

    def test_a_project_narrows_what_is_adjusted(self, login: Login) -> None:
        client = login("view_counter", "adjust_counter")
        for key in ("plain:a", f"{HIDDEN}:a", "fixed:a"):
            Counter.objects.create(key=key)
        assert self.status(client, "plain:a", "") == 200
        assert self.status(client, f"{HIDDEN}:a", "") == 404
        assert self.status(client, "fixed:a", "") == 403

    def test_a_counter_that_is_typed_over_stays(self, login: Login) -> None:
        root = login(name="root", superuser=True)
        post = Post.objects.create(views=5)
        url = reverse("admin:testapp_post_change", args=(post.pk,))
        assert 'name="views"' not in root.get(url).content.decode()
        data = {"title": "new", "views": "99", "likes": "99", "_save": "Save"}
        assert root.post(url, data).status_code == 302
        post.refresh_from_db()
        assert (post.title, post.views, post.likes) == ("new", 5, 0)
        url = reverse("admin:testapp_post_add")
        assert "adjust/?" not in root.get(url).content.decode()
        root.post(url, data)
        assert list(Post.objects.order_by("pk").values_list("views", flat=True)) == [5, 0]
