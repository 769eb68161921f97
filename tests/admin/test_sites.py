"""Projects that are not as most are: sites with a few models, several databases, loud templates."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import models
from django.test import Client, override_settings
from django.urls import path, reverse

from django_counters.adjustments.approval import approve, ask
from django_counters.admin import AdjustmentAdmin, CounterAdmin, RequestAdmin
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterAdjustment,
)
from django_counters.write.changes import named
from tests.testapp.models import Product

SITES = {
    CounterAdjustment: admin.AdminSite(name="audit"),
    AdjustmentRequest: admin.AdminSite(name="second"),
    Counter: admin.AdminSite(name="values"),
}
SITES[CounterAdjustment].register(CounterAdjustment, AdjustmentAdmin)
SITES[AdjustmentRequest].register(AdjustmentRequest, RequestAdmin)
SITES[Counter].register(Counter, CounterAdmin)
urlpatterns = [
    path("admin/", admin.site.urls),
    *(path(f"{site.name}/", site.urls) for site in SITES.values()),
]


@pytest.fixture
def approved(db: None) -> None:
    asked = ask(named("stock:a"), by=1, expected=0, reason="a stocktake", actor="ann")
    approve(asked.pk, approver="bob", expected=0)


@pytest.mark.usefixtures("approved")
@override_settings(ROOT_URLCONF=__name__)
@pytest.mark.parametrize("model", SITES)
def test_a_site_need_not_have_all_of_them(root: Client, model: type[models.Model]) -> None:
    name = f"admin:django_counters_{model._meta.model_name}"
    site, row = SITES[model].name, model._default_manager.get()
    for page, given in (("changelist", ()), ("change", (row.pk,))):
        url = reverse(f"{name}_{page}", args=given, current_app=site)
        assert url.startswith(f"/{site}/")
        page_of_it = root.get(url)
        assert page_of_it.status_code == 200
        assert "stock:a" in page_of_it.content.decode()


@pytest.mark.usefixtures("approved")
@override_settings(ROOT_URLCONF=__name__)
@pytest.mark.parametrize("may", [False, True])
def test_adjustments_that_a_site_does_not_have(client: Client, may: bool) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    codes = ["view_counter", *(["view_counteradjustment"] if may else [])]
    user.user_permissions.set(Permission.objects.filter(codename__in=codes))
    client.force_login(user)
    page = client.get("/values/django_counters/counter/stock_3Aa/change/")
    assert ("a stocktake" in page.content.decode()) is may


class Elsewhere:
    """What belongs to the app is in another database than the records."""

    def db_for_read(self, model: Any, **_hints: Any) -> str | None:
        return "other" if model._meta.app_label.startswith("django_counters") else None

    db_for_write = db_for_read


@pytest.mark.django_db(databases=["default", "other"])
def test_no_link_leads_to_the_row_of_another_database(root: Client) -> None:
    product = Product.objects.create(stock=5)
    url = f"{reverse('admin:django_counters_adjust')}?field=testapp.Product.stock&key={product.pk}"
    with override_settings(DATABASE_ROUTERS=[Elsewhere()]):
        Counter.objects.adjust("stock:a", to=1, reason="another one", actor="ann")
        context: Any = root.get(url).context
        sent: dict[str, Any] = {name: context[name] for name in ("expected", "last", "token")}
        sent |= {"how": "by", "number": 3, "reason": "a stocktake", "step": "confirm"}
        (message,) = root.post(url, sent, follow=True).context["messages"]
    product.refresh_from_db()
    assert product.stock == 8
    assert "adjustment 1" in str(message)
    assert "<a " not in str(message)
