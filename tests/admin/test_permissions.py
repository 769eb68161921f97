"""Who may do what: every address of the app's admin, for everybody, and what nobody may do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from django_counters import clock
from django_counters.adjustments.approval import ask
from django_counters.contrib import holds
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterAdjustment,
    CounterIncident,
)
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.write.changes import named
from tests.admin import reading
from tests.admin.conftest import Login
from tests.concurrency.servers import execute
from tests.testapp.models import Product

pytestmark = pytest.mark.django_db
KEY, HELD = "stock:a", "basket 2"
SENT = {"how": "by", "number": "5", "reason": "counted by hand", "expected": "40"}
_VIEW = [f"view_{model}" for model in ("counter", "counteradjustment", "adjustmentrequest")]
_VIEW += ["view_counterincident"]
ROLES: dict[str, list[str]] = {
    "anonymous": [],
    "member": [],
    "staff": [],
    "view": _VIEW,
    "counters": ["view_counter"],
    "audit": ["view_counteradjustment", "view_counterincident"],
    "change": [*_VIEW, "add_counter", "change_counter", "delete_counter"],
    "adjust": ["adjust_counter"],
    "adjust+view": [*_VIEW, "adjust_counter"],
    "approve": ["approve_adjustment"],
    "approve+view": [*_VIEW, "approve_adjustment"],
    "superuser": [],
}
# What each role is answered, in their order, and where. Nobody who is not of the staff gets any
# further than to the page that logs in: "log".
TABLE = """
log log 404 200 200 200 200 404 200 404 200 200
    app
log log 403 200 200 403 200 403 200 403 200 200
    counter: list, list POST, delete_selected, page, chart, export, overview, history
log log 405 405 405 405 405 405 405 405 405 405
    counter: page POST, chart POST, export POST, overview POST, release
    request: approve, reject
log log 403 403 403 403 403 403 403 403 403 403
    counter: add, add POST, delete, delete POST
    request: page POST, add, add POST, delete, delete POST
    adjustment: page POST, add, add POST, delete, delete POST
    incident: page POST, add, add POST, delete, delete POST
log log 403 403 403 403 403 403 200 403 403 200
    adjust
    adjust: preview
log log 403 403 403 403 403 403 302 403 403 302
    adjust: confirm
    counter: release POST
log log 403 200 403 403 200 403 200 403 200 200
    request: list, list POST, delete_selected, page, history
log log 403 403 403 403 403 403 403 403 302 302
    request: approve POST, reject POST
log log 403 200 403 200 200 403 200 403 200 200
    adjustment: list, list POST, delete_selected, page, export, history
    incident: list, list POST, delete_selected, page, history
"""


def _rows() -> dict[str, list[str]]:
    """What each address answers."""
    found: dict[str, list[str]] = {}
    for line in TABLE.strip().splitlines():
        if line.startswith("log"):
            statuses = line.split()
            continue
        what, _, pages = line.strip().partition(": ")
        found |= {f"{what} {page}".strip(): statuses for page in pages.split(", ")}
    return found


ROWS = _rows()
CHANGING = ("adjust confirm", "counter release POST", "request approve POST", "request reject POST")
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
    Counter.objects.increment(KEY, 31)
    holds.hold(KEY, 1, token=HELD)
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


def adjust_address(key: object, field: str = "", form: str = "adjust") -> str:
    query = urlencode({"field": field, "key": str(key)})
    return f"{reverse(f'admin:django_counters_{form}')}?{query}"


def release_address(key: object, field: str = "") -> str:
    return adjust_address(key, field, "release")


def address(what: str, page: str, rows: dict[str, Any]) -> str:
    if what == "app":
        return reverse("admin:app_list", args=("django_counters",))
    if what == "adjust":
        return adjust_address(KEY)
    if page == "release":
        return release_address(KEY)
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
    data |= {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-value": "9"}
    if page == "release":
        data |= {"token": HELD}
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
    elif response.status_code == 200 and "html" in response["Content-Type"]:
        assert reading.Page(response).forbidden == [], line
    return str(response.status_code)


@cache
def _statements() -> list[str]:
    """Compiled once: they are asked after each of 700 requests."""
    models = (Counter, CounterAdjustment, AdjustmentRequest, CounterIncident, LogEntry)
    return [str(model._base_manager.order_by("pk").values().query) for model in models]


def all_there_is() -> list[Any]:
    return [execute(each) for each in _statements()]


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
    def test_who_sees_counters_sees_no_records(self, login: Login, field: str) -> None:
        client = login("view_counter", "adjust_counter")
        for key in ("1", "", "x", "1.5", "9" * 30, "\0", "-1"):
            url = adjust_address(key, field)
            assert client.get(url).status_code in (403, 404), key
            data = SENT | {"step": "confirm", "token": str(mint(clock.utc()))}
            assert client.post(url, data).status_code in (403, 404), key
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
