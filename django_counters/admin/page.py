"""The page of one counter: its value, what that is made of, and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import django
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_counters.admin.adjusting import adjust_url
from django_counters.admin.history import history_of, numbers
from django_counters.admin.listing import waiting_first
from django_counters.admin.subjects import visible
from django_counters.exceptions import CounterError
from django_counters.models import Counter, CounterAdjustment
from django_counters.read.history import Explanation, explain
from django_counters.read.readings import readings_of
from django_counters.registry import registry
from django_counters.types import Reading, namespace_of

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = object

LAST_ENTRIES = 10
LAST_ADJUSTMENTS = 20


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a counter now.

    Attributes:
        value: the exact value, or what has landed of it.
        exact: whether it is exact.
        parts: name, amount and meaning of what the value is the sum of.
        explanation: None where it could not be had.
        problem: why not.
    """

    value: int
    exact: bool
    parts: list[tuple[str, int, str]]
    explanation: Explanation | None = None
    problem: str = ""


class CounterPageMixin(_ModelAdmin):
    """Shows one counter where others have a form. Nothing can be sent to it.

    Who may view a counter is asked of ``get_queryset`` and ``has_view_permission``.
    """

    def get_urls(self) -> list[URLPattern]:
        """With that of the numbers of the chart."""
        view = self.admin_site.admin_view(self.chart_view)
        name = "django_counters_counter_chart"
        return [path("<path:object_id>/chart/", view, name=name), *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page of one counter. Values are adjusted elsewhere, so nothing else is taken."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
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

    def chart_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The numbers of the chart, as JSON."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        counter = self._permitted(request, object_id)
        if counter is None:
            raise Http404
        return JsonResponse(numbers(counter.key, request))

    def _permitted(self, request: HttpRequest, object_id: str) -> Counter | None:
        """The counter, if there is one that is shown to this user."""
        key = unquote(object_id)
        # PostgreSQL has no such texts, and says so with an error.
        counter = None if "\0" in key else self.get_object(request, key) or self._new(request, key)
        if not self.has_view_permission(request, counter):
            raise PermissionDenied
        return counter

    def _new(self, request: HttpRequest, key: str) -> Counter | None:
        """A counter that waits for its first rollup, for whoever may see them all."""
        page: Any = self
        if not page.has_overview_permission(request):
            return None
        using = page.get_queryset(request).db
        return Counter(key=key) if waiting_first(using).filter(key=key).exists() else None

    def _about(self, request: HttpRequest, counter: Counter) -> dict[str, Any]:
        key, policy = counter.key, registry.policy(counter.key)
        # The form asks for a row.
        adjusts = bool(counter.updated_at) and self._adjusts(request)
        return {
            "title": key,
            "has_tools_beside_title": django.VERSION >= (6, 1),
            "opts": self.opts,
            "counter": counter,
            "facts": shown_of(counter),
            "namespace": namespace_of(key),
            "policy": policy,
            **history_of(key, request),
            "chart_url": self._url("counter_chart", quote(key)),
            "crumb": self.opts.verbose_name_plural.capitalize(),  # type: ignore[union-attr]
            "crumb_url": self._url("counter_changelist"),
            "adjust_url": adjust_url(self.admin_site, "", key) if adjusts else "",
            "adjustments": self._adjustments(request, key),
            "adjustments_url": self._adjustments_url(request, key),
        }

    def _adjusts(self, request: HttpRequest) -> bool:
        """Whether this user is shown the way to the form; the form asks again."""
        asked: Any = getattr(self, "has_adjust_permission", None)
        return bool(asked and asked(request))

    def _adjustments(self, request: HttpRequest, key: str) -> list[CounterAdjustment] | None:
        """The last adjustments, the latest first; None for whoever may not see adjustments."""
        try:
            rows = visible(self.admin_site, request, CounterAdjustment)
        except PermissionDenied:
            return None
        return list(rows.filter(field="", key=key).order_by("-number")[:LAST_ADJUSTMENTS])

    def _adjustments_url(self, request: HttpRequest, key: str) -> str:
        """Where all adjustments are; empty for whoever may not see them."""
        site = self.admin_site
        if not site.is_registered(CounterAdjustment):
            return ""
        if not site.get_model_admin(CounterAdjustment).has_view_permission(request):
            return ""
        return f"{self._url('counteradjustment_changelist')}?{urlencode({'q': key})}"

    def _url(self, name: str, *args: str) -> str:
        """The address of a page of this site; empty where it does not have it."""
        try:
            name = f"admin:django_counters_{name}"
            return reverse(name, args=args, current_app=self.admin_site.name)
        except NoReverseMatch:
            return ""


def shown_of(counter: Counter) -> Shown:
    """The exact value and its parts; where that cannot be had, what the database has, and why."""
    try:
        found = explain(counter.key, LAST_ENTRIES, None)
    except CounterError as error:
        reading = readings_of([counter.key])[counter.key]
        exact = reading.consistency == "exact"
        return Shown(reading.value, exact, _parts_of(reading), problem=str(error))
    return Shown(found.value, True, list(_parts(found)), found)


def _parts_of(reading: Reading) -> list[tuple[str, int, str]]:
    return [
        (pgettext("of a counter", "Total"), reading.total, _("what is rolled up")),
        (pgettext("of a counter", "Pending"), reading.pending, _("what waits for its rollup")),
    ]


def _parts(found: Explanation) -> list[tuple[str, int, str]]:
    """The total and what waits, place by place."""
    parts = [
        (pgettext("of a counter", "Total"), found.total, _("what is rolled up")),
        (_("Shards"), found.shards, _("what waits in shards")),
        (_("Tail"), found.tail, _("entries of the ledger that are not rolled up yet")),
    ]
    if found.redis is not None:
        parts.append((_("Redis"), found.redis, _("what waits in Redis for a flush")))
    return parts
