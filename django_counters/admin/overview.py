"""One page on how all counters are doing, and what has to be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import connections, router
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_counters import clock
from django_counters.models import AdjustmentRequest, Counter, CounterIncident
from django_counters.observe.doctor import Finding, facts_of, to_do
from django_counters.observe.facts import PARTS, RECENT, Facts, databases

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object

_BREAKERS: Mapping[str | None, Any] = MappingProxyType(
    {
        "closed": _("closed: calls go through"),
        "half-open": _("half-open: the next call tries"),
        "open": _("open: it is left alone for a moment"),
        None: _("not asked yet"),
    }
)
_MINUTE = timedelta(minutes=1)


class OverviewMixin(_ModelAdmin):
    """Adds the overview to the admin of counters, for whoever may view them all.

    To keep it from somebody, override `has_overview_permission`.
    """

    def get_urls(self) -> list[URLPattern]:
        """With that of the overview."""
        view = self.admin_site.admin_view(self.overview_view)
        return [path("overview/", view, name="django_counters_overview"), *super().get_urls()]

    def has_overview_permission(self, request: HttpRequest) -> bool:
        """Whether somebody may see how all counters together are doing."""
        return self.has_view_permission(request)

    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """The overview of one database: that of the counters, or the one that is asked for."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_overview_permission(request):
            raise PermissionDenied
        using = request.GET.get("database") or router.db_for_write(Counter)
        if using not in connections:
            raise Http404
        found = _in_local_time(facts_of(using, *PARTS))
        context = {
            **self.admin_site.each_context(request),
            **_shown(found),
            "title": _("Overview"),
            "opts": self.opts,
            "databases": databases(),
            "days": RECENT.days,
            "incidents_url": self._list_url(request, CounterIncident),
            "requests_url": self._list_url(request, AdjustmentRequest),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_counters/overview.html", context)

    def _list_url(self, request: HttpRequest, model: type[Model]) -> str:
        """Where the list of a model is; empty for whoever may not see it."""
        site = self.admin_site
        if not site.is_registered(model):
            return ""
        if not site.get_model_admin(model).has_view_permission(request):
            return ""
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        return reverse(name, current_app=site.name)


def _in_local_time(found: Facts) -> Facts:
    """As a page shows all its times."""
    if found.incidents is None or not settings.USE_TZ:
        return found
    shown = (replace(one, last=timezone.localtime(one.last)) for one in found.incidents)
    return replace(found, incidents=tuple(shown))


def _shown(found: Facts) -> dict[str, Any]:
    """What the template needs to know."""
    ledger = found.ledger
    return {
        "overview": found,
        "to_do": [_parted(one) for one in to_do(found)],
        "redises": [
            (one, str(_BREAKERS[one.breaker]), _age(one.lag)) for one in found.redises or ()
        ],
        "rollup_lag": _age(ledger.lag) if ledger else "",
        "rates": [
            (_("Increments that landed from Redis"), found.landed),
            (_("Entries of the ledger"), found.entries),
        ],
        "periods": [rate.minutes for rate in found.landed or found.entries or ()],
    }


def _parted(one: Finding) -> tuple[Finding, str, str]:
    """Something that has to be done, and what stands before and after the command for it."""
    before, _command, after = (
        one.action.partition(one.command) if one.command else (one.action, "", "")
    )
    return one, before, after


def _age(lag: timedelta | None) -> str:
    """How long something takes, for people; empty where it is not known."""
    if lag is None:
        return ""
    if lag < 2 * _MINUTE:
        seconds = max(0, round(lag.total_seconds()))
        return ngettext("%(seconds)d second", "%(seconds)d seconds", seconds) % {"seconds": seconds}
    now = clock.now()
    return timesince(now - lag, now)
