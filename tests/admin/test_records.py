"""Admins of a project: who may adjust a counter of a record says the admin of its model."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_counters import clock
from django_counters.models import Counter, CounterAdjustment, SlottedCounter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.admin.conftest import Login
from tests.admin.site import HIDDEN
from tests.admin.test_permissions import SENT, adjust_address
from tests.testapp.models import Account, NewsPage, Note, Page, Post, Product, Release, Song

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.admin.site")]


@pytest.fixture
def clerk(login: Login) -> Client:
    client = login("adjust_counter", name="clerk")
    models = ("post", "song", "newspage", "release")
    found = Permission.objects.filter(codename__in=[f"view_{model}" for model in models])
    User.objects.get(username="clerk").user_permissions.add(*found)
    return client


def answered(client: Client, key: object, field: str) -> int:
    """What the form answers, which is what it answers to being sent."""
    url = adjust_address(key, field)
    status = client.get(url).status_code
    data = SENT | {"expected": "0", "step": "confirm", "token": str(mint(clock.utc()))}
    sent = client.post(url, data).status_code
    assert (status, sent) in ((200, 302), (403, 403), (404, 404))
    return status


def test_a_record_that_is_shown(clerk: Client) -> None:
    post = Post.objects.create()
    page = clerk.get(reverse("admin:testapp_post_change", args=(post.pk,))).content.decode()
    for name in ("views", "likes"):
        link = adjust_address(post.pk, f"testapp.Post.{name}")
        assert f'href="{link.replace("&", "&amp;")}">Adjust {name}<' in page
        assert f'name="{name}"' not in page
    assert answered(clerk, post.pk, "testapp.Post.views") == 200
    post.refresh_from_db()
    assert post.views == 5


def test_no_link_where_the_value_is_how_many_actors_there_are(root: Client) -> None:
    note = Note.objects.create()
    page = root.get(reverse("admin:testapp_note_change", args=(note.pk,))).content.decode()
    assert re.findall(r">Adjust (\w+)<", page) == ["reads"]
    with override_counters(likes={"ONCE": True}, reads={"ONCE": "30m"}):
        for key in ("likes:a", "reads:a"):
            Counter.objects.increment(key, who="ann")
            url = reverse("admin:django_counters_counter_change", args=(quote(key),))
            assert ("adjust/?" in root.get(url).content.decode()) == (key == "reads:a")
        # Who goes to the form all the same changes nothing.
        sent = SENT | {"expected": "1", "step": "confirm", "token": str(mint(clock.utc()))}
        for target in (("likes:a", ""), (note.pk, "testapp.Note.likes")):
            assert root.post(adjust_address(*target), sent).status_code == 200
    assert not CounterAdjustment.objects.exists()
    assert answered(root, note.pk, "testapp.Note.reads") == 200


def test_amounts_are_shown_and_nobody_adjusts_their_units(root: Client) -> None:
    account = Account.objects.create(**{"balance": Decimal("12.5")})
    page = root.get(reverse("admin:testapp_account_change", args=(account.pk,))).content.decode()
    assert ">12.50<" in page
    assert "adjust/?" not in page
    listed = root.get(reverse("admin:testapp_account_changelist") + "?balance__gte=12.50")
    assert "12.50" in listed.content.decode()
    assert answered(root, account.pk, "testapp.Account.balance") == 404
    assert Account.objects.get().balance == Decimal("12.50")


def test_no_link_without_the_permission(login: Login) -> None:
    client = login(name="viewer")
    view = Permission.objects.get(codename="view_post", content_type__app_label="testapp")
    User.objects.get(username="viewer").user_permissions.add(view)
    post = Post.objects.create()
    page = client.get(reverse("admin:testapp_post_change", args=(post.pk,)))
    assert page.status_code == 200
    assert "adjust/?" not in page.content.decode()
    assert answered(client, post.pk, "testapp.Post.views") == 403


@pytest.mark.parametrize(("title", "status"), [(HIDDEN, 404), ("private", 403)])
def test_a_record_that_is_not(clerk: Client, title: str, status: int) -> None:
    post = Post.objects.create(title=title)
    assert answered(clerk, post.pk, "testapp.Post.views") == status
    assert answered(clerk, post.pk + 1, "testapp.Post.views") == 404
    assert not CounterAdjustment.objects.exists()


def test_a_model_that_may_not_be_viewed(clerk: Client) -> None:
    product = Product.objects.create()
    # Not even whether there is one is said.
    for key in (product.pk, product.pk + 1):
        assert answered(clerk, key, "testapp.Product.stock") == 403


def test_slots_with_and_without_a_column(clerk: Client) -> None:
    song = Song.objects.create()
    SlottedCounter.objects.increment(song, "kudos")
    SlottedCounter.objects.decrement(song, "kudos")
    for name in ("plays", "kudos"):
        assert answered(clerk, song.pk, f"testapp.Song.{name}") == 200
        assert CounterAdjustment.objects.filter(field=f"testapp.Song.{name}").exists()


def test_an_inherited_counter_is_adjusted_by_who_sees_the_child(clerk: Client) -> None:
    news, release = NewsPage.objects.create(), Release.objects.create(code="x")
    parent = Page.objects.create()
    assert answered(clerk, news.pk, "testapp.NewsPage.hits") == 200
    assert answered(clerk, parent.pk, "testapp.NewsPage.hits") == 404
    assert answered(clerk, news.pk, "testapp.Page.hits") == 403
    assert answered(clerk, release.track_id, "testapp.Release.plays") == 200
    page = clerk.get(reverse("admin:testapp_release_change", args=("x",))).content.decode()
    link = adjust_address(release.track_id, "testapp.Release.plays")
    assert f'href="{link.replace("&", "&amp;")}"' in page


def test_a_model_without_an_admin_asks_for_its_permission(login: Login, clerk: Client) -> None:
    page = Page.objects.create()
    assert answered(clerk, page.pk, "testapp.Page.hits") == 403
    view = Permission.objects.get(codename="view_page", content_type__app_label="testapp")
    User.objects.get(username="clerk").user_permissions.add(view)
    assert answered(clerk, page.pk, "testapp.Page.hits") == 200
    assert answered(clerk, page.pk + 1, "testapp.Page.hits") == 404


def test_a_project_narrows_what_is_seen(login: Login) -> None:
    client = login("view_counter")
    Counter.objects.increment_many({"plain:a": 1, f"{HIDDEN}:a": 1, "private:a": 1})
    for page in ("changelist", "export"):
        answer: Any = client.get(reverse(f"admin:django_counters_counter_{page}"))
        text = b"".join(answer).decode()
        assert ("plain:a" in text, f"{HIDDEN}:a" in text) == (True, False)
    for page, hidden in (("change", 302), ("chart", 404)):
        for name, status in (("plain", 200), (HIDDEN, hidden), ("private", 403)):
            url = reverse(f"admin:django_counters_counter_{page}", args=(f"{name}_3Aa",))
            assert client.get(url).status_code == status
    assert client.get(reverse("admin:django_counters_overview")).status_code == 403


def test_a_project_narrows_what_is_adjusted(login: Login) -> None:
    client = login("view_counter", "adjust_counter")
    for key in ("plain:a", f"{HIDDEN}:a", "fixed:a"):
        Counter.objects.create(key=key)
    assert answered(client, "plain:a", "") == 200
    assert answered(client, f"{HIDDEN}:a", "") == 404
    assert answered(client, "fixed:a", "") == 403


def test_a_counter_that_is_typed_over_stays(login: Login) -> None:
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
