"""One page on the state of all counters, and the work to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import connections, router
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.module_loading import import_string
from django.utils.timesince import timesince
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from django_counters import clock
from django_counters.admin.readonly import ReadOnlyAdmin, filled, list_url
from django_counters.features import Finding, features
from django_counters.metrics.doctor import facts_of, to_do
from django_counters.metrics.facts import PARTS, RECENT, Facts, feature_parts
from django_counters.models import AdjustmentRequest, Counter, CounterIncident
from django_counters.tables.schema import databases

_BREAKERS: Mapping[str | None, Any] = MappingProxyType(
    {
        "closed": _("closed: calls go through"),
        "half-open": _("half-open: the next call tries"),
        "open": _("open: it is left alone for a moment"),
        None: _("not asked yet"),
    }
)
_MINUTE = timedelta(minutes=1)


class OverviewMixin(ReadOnlyAdmin):
    """Adds the overview to the admin of counters.

    Override `has_overview_permission` to hide it from a user.
    """

    def get_urls(self) -> list[URLPattern]:
        """Adds the address of the overview."""
        view = self.admin_site.admin_view(self.overview_view)
        return [path("overview/", view, name="django_counters_overview"), *super().get_urls()]

    def has_overview_permission(self, request: HttpRequest) -> bool:
        """Whether the user may see the overview of all counters."""
        return self.has_view_permission(request)

    @method_decorator(require_safe)
    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """The overview of one database: that of the counters, or ``?database=``."""
        if not self.has_overview_permission(request):
            raise PermissionDenied
        using = request.GET.get("database") or router.db_for_write(Counter)
        if using not in connections:
            raise Http404
        present = [import_string(one.section)() for one in features() if one.section]
        context = {
            **self.admin_site.each_context(request),
            **_shown(_in_local_time(facts_of(using, *PARTS, *feature_parts()))),
            "sections": filled(request, present, [using]),
            "title": _("Overview"),
            "opts": self.opts,
            "databases": databases(),
            "days": RECENT.days,
            "incidents_url": list_url(self.admin_site, request, CounterIncident),
            "requests_url": list_url(self.admin_site, request, AdjustmentRequest),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_counters/overview.html", context)


def _in_local_time(found: Facts) -> Facts:
    """The facts with times in the current time zone."""
    if found.incidents is None or not settings.USE_TZ:
        return found
    shown = (one._replace(last=timezone.localtime(one.last)) for one in found.incidents)
    return replace(found, incidents=tuple(shown))


def _shown(found: Facts) -> dict[str, Any]:
    """The context of the facts."""
    ledger, landed, entries = map(found.parts.get, ("ledger", "landed", "entries"))
    return {
        "overview": found,
        "to_do": [_parted(one) for one in to_do(found)],
        "redises": [
            (one, str(_BREAKERS[one.breaker]), age_text(one.lag))
            for one in found.parts.get("redis", ())
        ],
        "rollup_lag": age_text(ledger.lag) if ledger else "",
        "rates": [
            (_("Increments that landed from Redis"), landed),
            (_("Entries of the ledger"), entries),
        ],
        "periods": [rate.minutes for rate in landed or entries or ()],
    }


def _parted(one: Finding) -> tuple[Finding, str, str]:
    """A finding, and the parts of its action before and after the command."""
    before, _command, after = (
        one.action.partition(one.command) if one.command else (one.action, "", "")
    )
    return one, before, after


def age_text(lag: timedelta | None) -> str:
    """A duration for people; empty if it is not known."""
    if lag is None:
        return ""
    if lag < 2 * _MINUTE:
        seconds = max(0, round(lag.total_seconds()))
        return ngettext("%(seconds)d second", "%(seconds)d seconds", seconds) % {"seconds": seconds}
    now = clock.now()
    return timesince(now - lag, now)
