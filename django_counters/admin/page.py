"""The page of one counter: its value, the parts of it, and its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import django
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_safe

from django_counters.adjustments.admin import AdjustingMixin, adjust_url, sections, waiting_of
from django_counters.admin.history import history_of, numbers
from django_counters.admin.listing import waiting_first
from django_counters.admin.overview import OverviewMixin
from django_counters.admin.readonly import address, list_url
from django_counters.admin.subjects import visible
from django_counters.conf import Policy
from django_counters.exceptions import CounterError
from django_counters.features import OnPage
from django_counters.models import Counter, CounterAdjustment
from django_counters.read.history import Explanation, explain
from django_counters.read.readings import readings_of
from django_counters.read.values import reading_alias
from django_counters.registry import registry
from django_counters.types import namespace_of

LAST_ENTRIES = 10
LAST_ADJUSTMENTS = 20


@dataclass(frozen=True, slots=True)
class Shown:
    """The present value of a counter.

    Attributes:
        value: the exact value, or the part of it that has landed.
        exact: whether it is exact.
        parts: the name, amount and meaning of each part of the value.
        explanation: None if the exact value could not be read.
        problem: why not.
    """

    value: int
    exact: bool
    parts: list[tuple[str, int, str]]
    explanation: Explanation | None = None
    problem: str = ""


class CounterPageMixin(OverviewMixin, AdjustingMixin):
    """Replaces the form of a counter by a page that shows it.

    ``get_queryset`` and ``has_view_permission`` decide who may view a counter.
    """

    def get_urls(self) -> list[URLPattern]:
        """Adds the address of the numbers of the chart."""
        view = self.admin_site.admin_view(self.chart_view)
        name = "django_counters_counter_chart"
        return [path("<path:object_id>/chart/", view, name=name), *super().get_urls()]

    @method_decorator(require_safe)
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page of one counter. Another page adjusts it."""
        counter = self._permitted(request, object_id)
        if counter is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined,no-any-return]
                request, self.opts, unquote(object_id)
            )
        context = {
            **self.admin_site.each_context(request),
            **self._about(request, counter),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_counters/counter/page.html", context)

    @method_decorator(require_safe)
    def chart_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The numbers of the chart, as JSON."""
        counter = self._permitted(request, object_id)
        if counter is None:
            raise Http404
        return JsonResponse(numbers(counter.key, request))

    def _permitted(self, request: HttpRequest, object_id: str) -> Counter | None:
        """The counter, if this user may see it."""
        key = unquote(object_id)
        # PostgreSQL cannot look up such a text.
        counter = None if "\0" in key else self.get_object(request, key) or self._new(request, key)
        if not self.has_view_permission(request, counter):
            raise PermissionDenied
        return counter

    def _new(self, request: HttpRequest, key: str) -> Counter | None:
        """A counter that waits for its first rollup, for a user who may see all counters."""
        if not self.has_overview_permission(request):
            return None
        using = self.get_queryset(request).db
        return Counter(key=key) if waiting_first(using).filter(key=key).exists() else None

    def _about(self, request: HttpRequest, counter: Counter) -> dict[str, Any]:
        key, policy = counter.key, registry.policy(counter.key)
        # The form needs a row, and checks the permission for this counter itself.
        adjusts = bool(counter.updated_at) and self.has_adjust_permission(request)
        adjustments = list_url(self.admin_site, request, CounterAdjustment)
        return {
            "title": key,
            "has_tools_beside_title": django.VERSION >= (6, 1),
            "opts": self.opts,
            "counter": counter,
            "facts": shown_of(counter),
            "namespace": namespace_of(key),
            "policy": policy,
            **history_of(key, request),
            "panels": sections(request, [self._on_page(request, key, policy)]),
            "chart_url": address(self.admin_site, "django_counters_counter_chart", quote(key)),
            "crumb": self.opts.verbose_name_plural.capitalize(),  # type: ignore[union-attr]
            "crumb_url": address(self.admin_site, "django_counters_counter_changelist"),
            "adjust_url": adjust_url(self.admin_site, "", key, policy.measure) if adjusts else "",
            "requests": waiting_of(self.admin_site, request, key),
            "adjustments": self._adjustments(request, key),
            "adjustments_url": adjustments and f"{adjustments}?{urlencode({'q': key})}",
        }

    def _on_page(self, request: HttpRequest, key: str, policy: Policy) -> OnPage:
        adjusts = self.has_adjust_permission(request)
        return OnPage("", key, reading_alias(policy, None), self.admin_site, adjusts)

    def _adjustments(self, request: HttpRequest, key: str) -> list[CounterAdjustment] | None:
        """The last adjustments, the latest first; None for a user who may not see them."""
        try:
            rows = visible(self.admin_site, request, CounterAdjustment)
        except PermissionDenied:
            return None
        return list(rows.filter(field="", key=key).order_by("-number")[:LAST_ADJUSTMENTS])


def shown_of(counter: Counter) -> Shown:
    """The exact value and its parts; else what the database has, and the problem."""
    try:
        found = explain(counter.key, LAST_ENTRIES, None)
    except CounterError as error:
        reading = readings_of([counter.key])[counter.key]
        parts = [
            (pgettext("of a counter", "Total"), reading.total, _("rolled up")),
            (
                pgettext("of a counter", "Pending"),
                reading.pending,
                _("pending until the next rollup"),
            ),
        ]
        exact = reading.consistency == "exact"
        return Shown(reading.value, exact, parts, problem=str(error))
    return Shown(found.value, True, _parts(found), found)


def _parts(found: Explanation) -> list[tuple[str, int, str]]:
    """The total, and the amount that waits in each place."""
    parts = [
        (pgettext("of a counter", "Total"), found.total, _("rolled up")),
        (_("Shards"), found.shards, _("pending in shards")),
        (_("Tail"), found.tail, _("entries of the ledger that are not rolled up yet")),
    ]
    if found.redis is not None:
        parts.append((_("Redis"), found.redis, _("pending in Redis until the next flush")))
    return parts
