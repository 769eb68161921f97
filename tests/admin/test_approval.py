"""The second person: who sees a request, and decides on it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_counters.adjustments.approval import ask, reject
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.write.changes import named
from django_counters.write.records import of_record
from tests.admin.conftest import DEAD, EVIL, Login
from tests.admin.reading import Form, Page, messages_of, opened
from tests.testapp.models import Product

pytestmark = pytest.mark.django_db
KEY = "stock:a"
Asked = Callable[..., AdjustmentRequest]


@pytest.fixture(autouse=True)
def namespaces() -> Iterator[None]:
    with override_counters(stock={"FLOOR": 0, "APPROVE_ABOVE": 10}):
        yield


@pytest.fixture
def boss(login: Login) -> Client:
    """Somebody who may approve what others have asked for."""
    seen = ("view_counter", "view_counteradjustment", "view_adjustmentrequest")
    return login(*seen, "approve_adjustment", name="boss")


@pytest.fixture
def asked(db: None) -> Asked:
    """Makes a request of somebody else, from 40 to 500."""
    Counter.objects.increment(KEY, 40)

    def make(actor: object = "clerk", **given: Any) -> AdjustmentRequest:
        value = Counter.objects.value(KEY)
        change = given or {"to": 500}
        return ask(named(KEY), expected=value, reason="a stocktake", actor=actor, **change)

    return make


def address(page: str, *args: object) -> str:
    return reverse(f"admin:django_counters_adjustmentrequest_{page}", args=args)


def page_of(client: Client, request: AdjustmentRequest) -> Page:
    return opened(client, address("change", request.pk))


def form_of(page: Page, request: AdjustmentRequest, decision: str) -> Form:
    (form,) = (f for f in page.forms if f.action == address(decision, request.pk))
    return form


class TestThePage:
    def test_who_has_asked_sees_it_and_cannot_decide(self, login: Login, asked: Asked) -> None:
        client = login(name="clerk", superuser=True)
        page = page_of(client, asked(User.objects.get(username="clerk")))
        assert "somebody else has to decide" in page.html
        assert not [form for form in page.forms if form.action]

    def test_the_decision_stands_before_what_is_told(self, boss: Client, asked: Asked) -> None:
        html = page_of(boss, asked()).html
        assert html.index(">Approve</button>") < html.index(">Reject</button>")
        assert html.index(">Reject</button>") < html.index('class="form-row field-requester_name')
        # Whoever approves has read why.
        assert html.index("Reason</th>") < html.index(">Approve</button>")

    def test_it_waits_on_the_page_of_its_counter(
        self, boss: Client, login: Login, asked: Asked
    ) -> None:
        request, other = asked(), asked(by=100)
        url = reverse("admin:django_counters_counter_change", args=(quote(KEY),))
        pages = [f'href="{address("change", one.pk)}"' for one in (request, other)]
        html = opened(boss, url).html
        assert html.index(pages[1]) < html.index(pages[0]) < html.index('id="counters-value"')
        assert "to 500" in html
        assert "by +100" in html
        reject(request.pk, actor="boss", note="no")
        assert pages[0] not in opened(boss, url).html
        blind = opened(login("view_counter"), url).html
        assert "Waiting for a second person" not in blind

    def test_who_may_not_see_the_counter_does_not_learn_its_value(
        self, login: Login, asked: Asked
    ) -> None:
        Counter.objects.increment(KEY, 4711)
        request = asked(by=-20)
        Counter.objects.increment(KEY, 1000)
        page = page_of(login("view_adjustmentrequest", "approve_adjustment"), request)
        assert "You may not see this counter" in page.html
        assert "5751" not in page.html
        assert not [form for form in page.forms if form.action]

    def test_redis_away(self, boss: Client, cached: str) -> None:
        Counter.objects.create(key="views:a", value=5)
        request = ask(named("views:a"), to=9, expected=5, reason="a test", actor="clerk")
        with override_counters(views=DEAD):
            page = page_of(boss, request)
            response = boss.post(address("approve", request.pk), {"expected": "5"})
        assert "Redis cannot be reached" in page.html
        assert "Redis cannot be reached" in messages_of(response)[0]
        request.refresh_from_db()
        assert request.state == "waiting"

    def test_a_request_that_is_not_there(self, boss: Client, login: Login) -> None:
        # Who may not see requests is not told whether there is one.
        blind = login("approve_adjustment")
        assert blind.post(address("approve", 4711), {"expected": "1"}).status_code == 403
        for url in (address("approve", 4711), address("reject", "no")):
            assert boss.post(url, {"expected": "1", "note": "no"}).status_code == 404
        assert boss.get(address("change", 4711)).status_code == 302


class TestADecision:
    def test_an_approval_adjusts(self, boss: Client, asked: Asked) -> None:
        request = asked()
        form = form_of(page_of(boss, request), request, "approve")
        response = boss.post(form.action, form.fields, headers={"x-request-id": "r-1"})
        assert response["Location"] == address("change", request.pk)
        row = CounterAdjustment.objects.get()
        assert (row.before, row.after, Counter.objects.value(KEY)) == (40, 500, 500)
        assert (row.actor_name, row.approver_name, row.request_id) == ("clerk", "boss", "r-1")
        page = page_of(boss, request)
        link = reverse("admin:django_counters_counteradjustment_change", args=(row.number,))
        assert f'href="{link}"' in page.html
        assert not [form for form in page.forms if form.action]

    def test_it_is_made_once(self, boss: Client, login: Login, asked: Asked) -> None:
        request = asked(by=100)
        other = login(name="other", superuser=True)
        form = form_of(page_of(boss, request), request, "approve")
        boss.post(form.action, form.fields)
        for client in (boss, other):
            for decision in ("approve", "reject"):
                data = {"expected": "140", "note": "no"}
                response = client.post(address(decision, request.pk), data)
                assert "boss has decided before" in messages_of(response)[-1]
        assert Counter.objects.value(KEY) == 140
        assert CounterAdjustment.objects.count() == 1

    @pytest.mark.parametrize("expected", ["40", "46", "", "forty", str(2**70)])
    def test_who_has_not_seen_the_value_does_not_approve(
        self, boss: Client, asked: Asked, expected: str
    ) -> None:
        request = asked()
        Counter.objects.increment(KEY, 5)
        response = boss.post(address("approve", request.pk), {"expected": expected})
        assert response.status_code == 302
        assert Counter.objects.value(KEY) == 45
        request.refresh_from_db()
        assert request.state == "waiting"
        form = form_of(page_of(boss, request), request, "approve")
        assert form.fields["expected"] == "45"
        boss.post(form.action, form.fields)
        assert Counter.objects.value(KEY) == 500

    def test_a_rejection_needs_a_reason(self, boss: Client, asked: Asked) -> None:
        request = asked()
        form = form_of(page_of(boss, request), request, "reject")
        for note in ("", "  ", "x" * 1001):
            boss.post(form.action, form.fields | {"note": note})
            request.refresh_from_db()
            assert request.state == "waiting"
        response = boss.post(form.action, form.fields | {"note": "counted twice"})
        assert "was rejected" in messages_of(response)[-1]
        request.refresh_from_db()
        assert (request.state, request.decider_name) == ("rejected", "boss")
        assert "counted twice" in page_of(boss, request).html
        assert not CounterAdjustment.objects.exists()

    def test_a_counter_of_a_record(self, login: Login) -> None:
        product = Product.objects.create(stock=5)
        request = ask(of_record(product, "stock"), to=90, expected=5, reason="found", actor="clerk")
        boss = login("view_adjustmentrequest", "approve_adjustment", name="boss")
        data = {"expected": "5"}
        assert boss.post(address("approve", request.pk), data).status_code == 403
        root = login(name="root", superuser=True)
        assert root.post(address("approve", request.pk), data).status_code == 302
        product.refresh_from_db()
        assert product.stock == 90


def test_what_is_gone_can_be_rejected_and_not_approved(
    boss: Client, login: Login, asked: Asked
) -> None:
    request = asked()
    Counter.objects.all().delete()
    stranger = login("view_counter", "view_adjustmentrequest")
    refuse = address("reject", request.pk)
    assert refuse not in page_of(stranger, request).html
    page = page_of(boss, request)
    assert "not there any more" in page.html
    assert refuse in page.html
    assert address("approve", request.pk) not in page.html
    given = {"expected": "0", "last": "0"}
    assert boss.post(address("approve", request.pk), given).status_code == 404
    boss.post(refuse, {"note": "it is gone"})
    request.refresh_from_db()
    assert (request.state, request.decider_name) == ("rejected", "boss")


@pytest.mark.parametrize("field", ["gone.Model.stock", "testapp.Post.title"])
def test_a_request_for_what_is_no_counter_any_more(boss: Client, field: str) -> None:
    request = AdjustmentRequest._base_manager.create(
        field=field, key="1", to=1, expected=0, reason="a stocktake", requester_name="clerk"
    )
    boss.post(address("reject", request.pk), {"note": "it is gone"})
    request.refresh_from_db()
    assert request.state == "rejected"


def test_whatever_a_request_says(login: Login, asked: Asked) -> None:
    clerk = User.objects.create_user(EVIL)
    key = "stock:" + EVIL
    Counter.objects.increment(key, 40)
    request = ask(named(key), to=500, expected=40, reason=f"a {EVIL}", actor=clerk, case=EVIL)
    boss = login(name=f"boss {EVIL}", superuser=True)
    pages = [opened(boss, address("changelist")), page_of(boss, request)]
    form = form_of(pages[1], request, "reject")
    boss.post(form.action, form.fields | {"note": EVIL})
    boss.post(form.action, form.fields | {"note": EVIL})
    pages += [page_of(boss, request), opened(boss, address("changelist"))]
    for page in pages:
        assert "&lt;script&gt;alert(1)" in page.html
        assert "<script>alert" not in page.html
        assert "<img/src=x" not in page.html
