"""Adjusting in the admin: a form, a preview, and only then a change, once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.http import urlencode

from django_counters import clock
from django_counters.contrib import series
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.types import INT8
from tests.admin.conftest import DEAD, EVIL, Login
from tests.admin.reading import Form, Page, messages_of, opened, sent

pytestmark = pytest.mark.django_db
KEY = "stock:a"
REASON = "counted by hand on Monday"


@pytest.fixture(autouse=True)
def namespaces() -> Iterator[None]:
    stock = {"FLOOR": 0, "CEILING": 10_000, "APPROVE_ABOVE": 1000}
    calls = {"CEILING": {"month": 100}}
    with override_counters(stock=stock, orders={"STRATEGY": "ledger"}, calls=calls):
        yield


@pytest.fixture
def clerk(login: Login) -> Client:
    """Somebody who may adjust, and look at what came of it."""
    seen = ("view_counter", "view_counteradjustment", "view_adjustmentrequest")
    return login(*seen, "adjust_counter", name="clerk")


@pytest.fixture
def url() -> str:
    Counter.objects.increment(KEY, 40)
    return address(KEY)


def address(key: str, field: str = "") -> str:
    query = {"field": field, "key": key}
    return f"{reverse('admin:django_counters_adjust')}?{urlencode(query)}"


def filled(page: Page, **answers: object) -> dict[str, str]:
    """What the form on a page sends, with some answers."""
    given = {"reason": REASON, **answers}
    fields = dict(page.form("token").fields)
    return fields | {name: str(answer) for name, answer in given.items()}


def previewed(client: Client, url: str, **answers: object) -> Page:
    return sent(client.post(url, filled(opened(client, url), **answers)))


def pressed(form: Form) -> dict[str, str]:
    """What a form sends as it is, by its first button."""
    name, value = form.buttons[0]
    return {**form.fields, name: value}


def confirmed(client: Client, url: str, page: Page, **headers: Any) -> Any:
    return client.post(url, pressed(page.form("token")), headers=headers)


def unchanged() -> bool:
    return Counter.objects.value(KEY) == 40 and not CounterAdjustment.objects.exists()


class TestTheForm:
    def test_it_shows_what_is_to_be_adjusted(self, clerk: Client, url: str) -> None:
        page = opened(clerk, url)
        for part in (KEY, ">40<", "exact", ">0<", ">10,000<", ">1,000<"):
            assert part in page.html
        fields = page.form("token").fields
        assert (fields["step"], fields["expected"]) == ("preview", "40")
        assert "no-store" in page.response["Cache-Control"]
        assert (
            page.form("token").fields["token"] != opened(clerk, url).form("token").fields["token"]
        )

    @pytest.mark.parametrize("key", ["", "stock:none", "a\0b", "x" * 400])
    def test_there_is_none_for_a_counter_that_is_not_there(
        self, clerk: Client, url: str, key: str
    ) -> None:
        assert clerk.get(address(key)).status_code == 404

    def test_a_form_of_another_site_is_refused(self, clerk: Client, url: str) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = clerk.cookies
        data = filled(opened(clerk, url), how="to", number=5) | {"step": "confirm"}
        data.pop("csrfmiddlewaretoken", None)
        assert strict.post(url, data).status_code == 403
        assert unchanged()


class TestTheWay:
    def test_a_preview_names_the_quota(self, clerk: Client) -> None:
        Counter.objects.increment("calls:a", 100, at=clock.utc() - timedelta(days=40))
        Counter.objects.increment("calls:a", 40)
        page = previewed(clerk, address("calls:a"), how="to", number=0)
        assert "Quota per month" in page.html
        assert "40 → 0 of 100" in page.html
        confirmed(clerk, address("calls:a"), page)
        assert series.quotas("calls:a")[0].available == 100

    @pytest.mark.parametrize(
        ("how", "number", "after", "delta"), [("to", 55, 55, "+15"), ("by", -15, 25, "-15")]
    )
    @pytest.mark.parametrize("key", [KEY, "orders:a", "plain"])
    def test_a_preview_changes_nothing_and_a_confirmation_does(
        self, clerk: Client, key: str, how: str, number: int, after: int, delta: str
    ) -> None:
        Counter.objects.increment(key, 40)
        if key == "orders:a":
            Counter.objects.get_or_create(key=key)
        url = address(key)
        page = previewed(clerk, url, how=how, number=number, case="T-1")
        for part in (">40<", f">{after}<", f">{delta}<", REASON, "T-1"):
            assert part in page.html
        assert Counter.objects.value(key) == 40
        assert not CounterAdjustment.objects.exists()
        response = confirmed(clerk, url, page, x_request_id="r-1")
        row = CounterAdjustment.objects.get()
        assert (row.before, row.after, Counter.objects.value(key)) == (40, after, after)
        assert (row.reason, row.case, row.actor_name) == (REASON, "T-1", "clerk")
        assert (row.request_id, row.approver_name) == ("r-1", "")
        page_of = reverse("admin:django_counters_counter_change", args=(key.replace(":", "_3A"),))
        assert (response.status_code, response["Location"]) == (302, page_of)
        (message,) = messages_of(response)
        assert f"<span>{key} was adjusted" in clerk.get(page_of).content.decode()
        link = reverse("admin:django_counters_counteradjustment_change", args=(row.number,))
        assert f'<a href="{link}">' in message

    def test_a_form_that_is_sent_twice_adjusts_once(self, clerk: Client, url: str) -> None:
        page = previewed(clerk, url, how="by", number=5)
        confirmed(clerk, url, page)
        (message,) = messages_of(confirmed(clerk, url, page))[-1:]
        assert "before" in message
        # With another number, too.
        data = pressed(page.form("token")) | {"number": "6"}
        again = sent(clerk.post(url, data))
        assert "has been sent before" in again.html
        assert Counter.objects.value(KEY) == 45
        assert CounterAdjustment.objects.count() == 1
        fields = again.form("token").fields
        assert (fields["expected"], fields["token"] == data["token"]) == ("45", False)
        confirmed(clerk, url, sent(clerk.post(url, fields)))
        assert Counter.objects.value(KEY) == 51

    def test_a_request_id_that_cannot_be_kept_is_left_out(self, clerk: Client, url: str) -> None:
        for name in ("", "x" * 129, "a\x7fb"):
            confirmed(clerk, url, previewed(clerk, url, how="by", number=5), x_request_id=name)
        assert [row.request_id for row in CounterAdjustment.objects.all()] == [""] * 3


class TestAValueThatHasChanged:
    def test_before_the_preview_and_before_the_confirmation(self, clerk: Client, url: str) -> None:
        data = filled(opened(clerk, url), how="to", number=50)
        Counter.objects.increment(KEY, 2)
        page = sent(clerk.post(url, data))
        assert "was 40 when you saw it, and is 42 by now" in page.html
        assert ">+8<" in page.html
        Counter.objects.increment(KEY)
        refused = sent(confirmed(clerk, url, page))
        assert "was 42 when you saw it, and is 43 by now" in refused.html
        assert Counter.objects.value(KEY) == 43
        assert not CounterAdjustment.objects.exists()
        assert confirmed(clerk, url, refused).status_code == 302
        row = CounterAdjustment.objects.get()
        assert (row.before, row.after) == (43, 50)

    def test_the_change_is_offered_that_the_value_meant(self, clerk: Client, url: str) -> None:
        first = previewed(clerk, url, how="to", number=35)
        assert [name for name, _ in first.form("token").buttons] == ["step", "step"]
        Counter.objects.increment(KEY, 2)
        form = sent(confirmed(clerk, url, first)).form("token")
        assert ("change", "-5") in form.buttons
        offered = sent(clerk.post(url, {**form.fields, "change": "-5"}))
        assert ">37<" in offered.html
        assert offered.form("token").fields["how"] == "by"
        # What is counted from now on does not hold it up.
        Counter.objects.increment(KEY, 3)
        assert confirmed(clerk, url, offered).status_code == 302
        row = CounterAdjustment.objects.get()
        assert (row.before, row.after, row.reason) == (45, 40, REASON)

    def test_no_change_is_offered_where_somebody_has_adjusted_or_none_was_meant(
        self, clerk: Client, url: str
    ) -> None:
        for number, adjust in ((35, True), (41, False)):
            page = previewed(clerk, url, how="to", number=number)
            if adjust:
                Counter.objects.adjust(KEY, by=1, reason="The same mistake", actor="other")
            else:
                Counter.objects.increment(KEY)
            refused = sent(confirmed(clerk, url, page))
            assert "when you saw it" in refused.html
            assert [name for name, _ in refused.form("token").buttons] == ["step", "step"]

    def test_what_is_counted_meanwhile_does_not_concern_a_change(
        self, clerk: Client, url: str
    ) -> None:
        data = filled(opened(clerk, url), how="by", number=5)
        Counter.objects.increment(KEY, 2)
        page = sent(clerk.post(url, data))
        assert "when you saw it" not in page.html
        Counter.objects.increment(KEY, 2)
        assert confirmed(clerk, url, page).status_code == 302
        row = CounterAdjustment.objects.get()
        assert (row.before, row.after) == (44, 49)

    def test_what_somebody_else_has_adjusted_meanwhile_does(self, clerk: Client, url: str) -> None:
        page = previewed(clerk, url, how="by", number=5)
        Counter.objects.adjust(KEY, by=5, reason="The same", actor="somebody else")
        refused = sent(confirmed(clerk, url, page))
        assert "was 40 when you saw it, and is 45 by now" in refused.html
        assert Counter.objects.value(KEY) == 45
        assert confirmed(clerk, url, refused).status_code == 302
        assert Counter.objects.value(KEY) == 50

    @pytest.mark.parametrize("last", ["", "7"])
    def test_without_the_last_adjustment_the_value_counts(
        self, clerk: Client, url: str, last: str
    ) -> None:
        data = pressed(previewed(clerk, url, how="by", number=5).form("token"))
        Counter.objects.increment(KEY)
        assert "is 41 by now" in sent(clerk.post(url, data | {"last": last})).html
        assert Counter.objects.value(KEY) == 41


class TestMistakes:
    @pytest.mark.parametrize(
        ("answers", "field"),
        [
            ({"number": ""}, "number"),
            ({"number": "many"}, "number"),
            ({"number": "1.5"}, "number"),
            ({"number": INT8[1] + 1}, "number"),
            ({"number": 0, "how": "by"}, "number"),
            ({"number": -1}, "number"),
            ({"number": -41, "how": "by"}, "number"),
            ({"number": 10_001}, "number"),
            ({"number": INT8[1], "how": "by"}, "number"),
            ({"reason": ""}, "reason"),
            ({"reason": "too short"}, "reason"),
            ({"reason": " " * 20}, "reason"),
            ({"reason": "x" * 1001}, "reason"),
            ({"reason": "a reason \0 of nothing"}, "reason"),
            ({"case": "x" * 101}, "case"),
        ],
    )
    def test_each_is_said_where_it_was_made(
        self, clerk: Client, url: str, answers: dict[str, Any], field: str
    ) -> None:
        data = filled(opened(clerk, url), **{"how": "to", "number": 50, **answers})
        for step in ("preview", "confirm"):
            page = sent(clerk.post(url, data | {"step": step}))
            assert f'href="#id_{field}"' in page.html
            assert f'id="id_{field}_error"' in page.html
        assert unchanged()

    @pytest.mark.parametrize("missing", ["token", "expected", "how"])
    def test_a_part_that_is_missing_is_not_guessed(
        self, clerk: Client, url: str, missing: str
    ) -> None:
        data = pressed(previewed(clerk, url, how="by", number=5).form("token"))
        del data[missing]
        assert "errornote" in sent(clerk.post(url, data)).html
        assert unchanged()

    def test_below_the_floor_only_where_that_is_said(self, clerk: Client, url: str) -> None:
        page = previewed(clerk, url, how="to", number=-3, allow_below_floor="on")
        confirmed(clerk, url, page)
        assert Counter.objects.value(KEY) == -3

    def test_a_sum_that_does_not_fit(self, clerk: Client) -> None:
        Counter.objects.increment("plain", 40)
        page = previewed(clerk, address("plain"), how="by", number=INT8[1])
        assert str(INT8[1]) in page.html
        assert 'href="#id_number"' in page.html
        assert Counter.objects.value("plain") == 40


class TestALimit:
    @pytest.mark.parametrize(("how", "number"), [("to", 1041), ("by", 1001)])
    def test_above_it_a_second_person_is_asked(
        self, clerk: Client, url: str, how: str, number: int
    ) -> None:
        page = previewed(clerk, url, how=how, number=number, case="T-1")
        assert "a second person is asked" in page.html
        for _ in range(2):
            response = confirmed(clerk, url, page)
        asked = AdjustmentRequest.objects.get()
        assert getattr(asked, how) == number
        assert (asked.key, asked.expected, asked.reason) == (KEY, 40, REASON)
        assert (asked.requester_name, asked.case, asked.state) == ("clerk", "T-1", "waiting")
        link = reverse("admin:django_counters_adjustmentrequest_change", args=(asked.pk,))
        assert f'<a href="{link}">' in messages_of(response)[-1]
        assert unchanged()


class TestRedisAway:
    def test_what_was_written_is_not_lost(self, clerk: Client, cached: str) -> None:
        Counter.objects.create(key="views:a", value=5)
        url, kept = address("views:a"), ("number", "reason", "expected", "token")
        data = filled(opened(clerk, url), how="by", number=5)
        for step in ("preview", "confirm"):
            with override_counters(views=DEAD):
                page = sent(clerk.post(url, data | {"step": step}))
            assert "Redis cannot be reached" in page.html
            fields = page.form("token").fields
            assert [fields[name] for name in kept] == [data[name] for name in kept]
        assert not CounterAdjustment.objects.exists()
        confirmed(clerk, url, sent(clerk.post(url, fields)))
        assert Counter.objects.value("views:a") == 10


@pytest.mark.parametrize("key", ["stock:" + EVIL, "stock:ümläut/ä?&#%'"])
def test_whatever_a_key_looks_like(login: Login, key: str) -> None:
    client = login(name=EVIL, superuser=True)
    Counter.objects.increment(key, 40)
    url, reason = address(key), f"a reason {EVIL}"
    pages = [opened(client, url)]
    pages.append(sent(client.post(url, filled(pages[0], number="", reason=reason, case=EVIL))))
    again = pages[1].form("token").fields
    assert (again["reason"], again["case"]) == (reason, EVIL)
    pages.append(sent(client.post(url, again | {"number": "5"})))
    response = confirmed(client, url, pages[2])
    assert Counter.objects.value(key) == 5
    row = CounterAdjustment.objects.get()
    assert (row.key, row.reason, row.case, row.actor_name) == (key, reason, EVIL, EVIL)
    for message in messages_of(response):
        assert "<script" not in message
    pages.append(opened(client, response["Location"]))
    link = reverse("admin:django_counters_counteradjustment_change", args=(row.number,))
    pages.append(opened(client, link))
    pages.append(opened(client, reverse("admin:django_counters_counteradjustment_changelist")))
    for page in pages:
        assert "<script>alert" not in page.html
        assert "<img/src=x" not in page.html
