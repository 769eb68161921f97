"""The pages of a counter and of a record of which something is held, and who may give it back."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client, override_settings
from django.urls import reverse

from django_counters.contrib import holds
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from tests.admin.conftest import EVIL, Login, login, nobody, viewer
from tests.admin.reading import html_of, rows_of
from tests.admin.site import HIDDEN
from tests.admin.test_page import section, url_of
from tests.admin.test_permissions import release_address
from tests.testapp.models import NewsPage, Page, Post, Product

pytestmark = pytest.mark.django_db
KEY, FIELD = "stock:lamp", "testapp.Product.stock"
REASON = "the customer has phoned"


@pytest.fixture(autouse=True)
def _stock() -> None:
    Counter.objects.increment(KEY, 10)
    holds.hold(KEY, 3, minutes=30, token="second", note="basket 2")
    holds.hold(KEY, 2, minutes=10, token=EVIL[:200])
    holds.hold(KEY, 1, token="sold").commit()


@pytest.fixture
def adjuster(login: Login) -> Client:
    return login("view_counter", "adjust_counter", name="eve")


def release(
    client: Client, token: str, reason: str = REASON, key: object = KEY, field: str = ""
) -> int:
    answer = client.post(release_address(key, field), {"token": token, "reason": reason})
    return answer.status_code


def may_view(model: str) -> Permission:
    return Permission.objects.get(codename=f"view_{model}", content_type__app_label="testapp")


def test_the_page_says_what_is_held_and_until_when(viewer: Client) -> None:
    part = section(html_of(viewer, url_of(KEY)), "holds")
    head, first, second = rows_of(part)
    assert head == ["Quantity", "Until", "Note", "Token"]
    assert (first[0], second[0], second[2], second[3]) == ("2", "3", "basket 2", "second")
    assert "<script>" not in part
    assert "<form" not in part


def test_who_may_adjust_gives_back_with_a_reason(adjuster: Client) -> None:
    assert "<form" in section(html_of(adjuster, url_of(KEY)), "holds")
    assert release(adjuster, "second") == 302
    row = CounterAdjustment.objects.get()
    assert (row.before, row.after, row.delta) == (4, 7, 3)
    assert (row.reason, row.actor_name, row.key) == (REASON, "eve", KEY)
    assert row.case == "hold 'second'"
    # Its token has signs that no case may have, and is long.
    assert release(adjuster, EVIL[:200]) == 302
    assert Counter.objects.value(KEY) == 9
    assert holds.find("second").state == "released"
    # Once.
    assert release(adjuster, "second") == 302
    assert (CounterAdjustment.objects.count(), Counter.objects.value(KEY)) == (2, 9)


def test_neither_a_ceiling_nor_a_second_person_is_asked(adjuster: Client) -> None:
    with override_counters(stock={"CEILING": 5, "APPROVE_ABOVE": 1}):
        release(adjuster, "second")
    assert Counter.objects.value(KEY) == 7


@pytest.mark.parametrize(
    ("token", "reason"),
    [("second", ""), ("second", "short"), ("sold", REASON), ("none", REASON), ("", REASON)],
)
def test_what_is_not_given_back(adjuster: Client, token: str, reason: str) -> None:
    assert release(adjuster, token, reason) == 302
    assert (CounterAdjustment.objects.count(), Counter.objects.value(KEY)) == (0, 4)


def test_a_hold_of_another_counter(adjuster: Client) -> None:
    Counter.objects.increment("stock:other", 1)
    assert release(adjuster, "second", key="stock:other") == 302
    assert holds.find("second").state == "held"


def test_who_may_not_adjust_this_counter_gives_nothing_of_it_back(login: Login) -> None:
    Counter.objects.increment("fixed:a", 1)
    holds.hold("fixed:a", 1, token="fixed")
    client = login("view_counter", "adjust_counter")
    with override_settings(ROOT_URLCONF="tests.admin.site"):
        assert release(client, "fixed", key="fixed:a") == 403
        assert release(client, "second") == 302
    assert [holds.find(one).state for one in ("fixed", "second")] == [
        "held",
        "released",
    ]


@pytest.mark.urls("tests.admin.site")
class TestFields:
    """The page of a record has the same section, for each of its counters."""

    def test_the_page_of_a_record_says_what_is_held(self, login: Login) -> None:
        post = Post.objects.create()
        post.views.increment(9)
        post.likes.increment(9)
        url = reverse("admin:testapp_post_change", args=(post.pk,))
        root, viewer = login(name="root", superuser=True), login(name="viewer")
        User.objects.get(username="viewer").user_permissions.add(may_view("post"))
        assert "counters-holds" not in html_of(root, url)
        holds.hold(post.views, 2, token="basket", note=EVIL)
        holds.hold(post.likes, 1, token="other")
        page = html_of(root, url)
        first, second = (section(page, f"holds-testapp-Post-{name}") for name in ("views", "likes"))
        assert ("Active holds (views)" in first, "Active holds (likes)" in second) == (True, True)
        assert rows_of(first)[1][:1] + rows_of(first)[1][3:4] == ["2", "basket"]
        assert "<script>" not in first
        link = release_address(post.pk, "testapp.Post.views").replace("&", "&amp;")
        assert f'action="{link}"' in first
        # Not within the form of the record, which would be sent in its place.
        assert page.index("</form>") < page.index("counters-holds")
        shown = html_of(viewer, url)
        assert "basket" in shown
        assert link not in shown
        assert "counters-holds" not in html_of(root, reverse("admin:testapp_post_add"))

    def test_it_is_given_back_with_a_reason_once(self, login: Login) -> None:
        product = Product.objects.create(stock=5)
        other = Product.objects.create(stock=5)
        holds.hold(product.stock, 3, token="basket")
        client = login("adjust_counter", name="eve")
        # Who does not see the record does not learn whether there is one.
        assert release(client, "basket", key=product.pk, field=FIELD) == 403
        User.objects.get(username="eve").user_permissions.add(may_view("product"))
        for key, field in ((other.pk, FIELD), (product.pk, "testapp.Product.clicks")):
            release(client, "basket", key=key, field=field)
        assert not CounterAdjustment.objects.exists()
        answer = client.post(
            release_address(product.pk, FIELD), {"token": "basket", "reason": REASON}
        )
        assert answer["Location"] == reverse("admin:testapp_product_change", args=(product.pk,))
        assert release(client, "basket", key=product.pk, field=FIELD) == 302
        row = CounterAdjustment.objects.get()
        assert (row.field, row.key, row.delta, row.after) == (FIELD, str(product.pk), 3, 5)
        assert (row.reason, row.actor_name) == (REASON, "eve")
        product.refresh_from_db()
        assert product.stock == 5

    @pytest.mark.parametrize(("title", "status"), [(HIDDEN, 404), ("private", 403)])
    def test_a_record_that_somebody_may_not_see(
        self, login: Login, title: str, status: int
    ) -> None:
        post = Post.objects.create(title=title, views=3)
        holds.hold(post.views, 1, token="basket")
        client = login("adjust_counter", name="eve")
        User.objects.get(username="eve").user_permissions.add(may_view("post"))
        assert release(client, "basket", key=post.pk, field="testapp.Post.views") == status
        assert holds.find("basket").state == "held"

    def test_an_inherited_counter_is_that_of_the_parent(self, login: Login) -> None:
        news = NewsPage.objects.create()
        Page.hits.of(news.pk).increment(5)
        holds.hold(news.hits, 2, token="basket")
        root = login(name="root", superuser=True)
        page = html_of(root, reverse("admin:testapp_newspage_change", args=(news.pk,)))
        field = "testapp.NewsPage.hits"
        assert release_address(news.pk, field).replace("&", "&amp;") in page
        assert release(root, "basket", key=news.pk, field=field) == 302
        assert Page.hits.of(news.pk).value() == 5


def test_nobody_else(viewer: Client, nobody: Client) -> None:
    assert release(viewer, "second") == 403
    assert release(nobody, "second") in (302, 403)
    assert holds.find("second").state == "held"
