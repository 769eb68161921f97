"""The staff of the example: who adjusts, who approves, and with how strict a policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import reverse

from django_counters.clock import utc
from django_counters.models import AdjustmentRequest, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.tokens import mint
from example_project import seeds
from example_project import settings as of_the_example
from example_project.csp import policy
from example_project.shop.models import Product

Login = Callable[[str], Client]
# What a browser does not run or draw under the policy.
INLINE = re.compile(
    r"<style|<script(?![^>]*(?:\bsrc=|application/json))|\s(?:style|on\w+)=|\bdata:(?:,|image)"
)


@pytest.fixture
def login(db: None) -> Login:
    with override_counters(**of_the_example.COUNTERS):
        seeds.sow()
    seeds.add_demo_users()

    def log_in(name: str) -> Client:
        client = Client()
        assert client.login(username=name, password=name)
        return client

    return log_in


def lamp() -> Product:
    return Product.objects.get(slug=seeds.SALE)


def adjust(client: Client, number: int) -> Any:
    """Send the last step of the form, as the preview does."""
    url = f"{reverse('admin:django_counters_adjust')}?field=shop.Product.stock&key={lamp().pk}"
    form = {
        **{"how": "by", "number": number, "reason": "Stocktake of today"},
        **{"expected": int(lamp().stock), "token": mint(utc()), "step": "confirm"},
    }
    return client.post(url, form)


def decide(client: Client, number: int) -> Any:
    url = reverse("admin:django_counters_adjustmentrequest_approve", args=[number])
    return client.post(url, {"expected": int(lamp().stock)})


def test_each_is_made_once_and_keeps_a_password_of_its_own(login: Login) -> None:
    boss = User.objects.get(username="boss")
    boss.set_password("of my own")
    boss.save()
    seeds.add_demo_users()
    assert sorted(User.objects.values_list("username", flat=True)) == ["boss", "clerk", "demo"]
    assert not Client().login(username="boss", password="boss")
    assert list(User.objects.filter(is_superuser=True).values_list("username", flat=True)) == [
        "demo"
    ]


def test_the_clerk_adjusts_what_one_may_do_alone(login: Login) -> None:
    assert adjust(login("clerk"), -100).status_code == 302
    assert lamp().stock == 400
    row = CounterAdjustment.objects.get()
    assert (row.actor_name, row.approver_name, row.delta) == ("clerk", "", -100)


def test_more_waits_for_the_boss(login: Login) -> None:
    clerk, boss = login("clerk"), login("boss")
    assert adjust(clerk, -101).status_code == 302
    waiting = AdjustmentRequest.objects.get()
    assert (waiting.state, lamp().stock) == ("waiting", 500)
    assert decide(clerk, waiting.pk).status_code == 403
    assert lamp().stock == 500
    assert decide(boss, waiting.pk).status_code == 302
    assert lamp().stock == 399
    row = CounterAdjustment.objects.get()
    assert (row.actor_name, row.approver_name, row.delta) == ("clerk", "boss", -101)


def test_the_boss_adjusts_nothing_alone(login: Login) -> None:
    assert adjust(login("boss"), -1).status_code == 403
    assert lamp().stock == 500


@pytest.mark.parametrize("name", ["clerk", "boss", "demo"])
def test_pages_work_with_the_policy_of_the_example(login: Login, name: str) -> None:
    client = login(name)
    product = reverse("admin:shop_product_change", args=[lamp().pk])
    pages = [
        *("/shop/", "/blog/", "/live/", "/admin/", product),
        reverse("admin:django_counters_overview"),
        reverse("admin:django_counters_counter_changelist"),
        reverse("admin:django_counters_counteradjustment_changelist"),
        reverse("admin:django_counters_adjustmentrequest_changelist"),
    ]
    with override_settings(
        MIDDLEWARE=of_the_example.MIDDLEWARE, SECURE_CSP=of_the_example.SECURE_CSP
    ):
        for page in pages:
            answer = client.get(page)
            assert answer.status_code == 200, page
            assert "default-src 'self'" in answer["Content-Security-Policy"], page
            assert INLINE.findall(answer.content.decode()) == [], page


def test_the_policy_is_sent_whatever_the_django(rf: RequestFactory) -> None:
    rules = {"default-src": ["'self'"], "img-src": ["'self'", "data:"]}
    with override_settings(SECURE_CSP=rules):
        answered = policy(lambda request: HttpResponse())(rf.get("/"))
        own = policy(lambda request: HttpResponse(headers={"Content-Security-Policy": "mine"}))
    assert answered["Content-Security-Policy"] == "default-src 'self'; img-src 'self' data:"
    assert own(rf.get("/"))["Content-Security-Policy"] == "mine"


def test_a_stock_is_adjusted_from_its_page_by_whoever_may(login: Login) -> None:
    url = reverse("admin:shop_product_change", args=[lamp().pk])
    link = f"{reverse('admin:django_counters_adjust')}?field=shop.Product.stock&amp;key={lamp().pk}"
    assert link in login("clerk").get(url).content.decode()
    assert link not in login("boss").get(url).content.decode()
