"""Requests for adjustments in the admin: who waits for a second person, and who decided what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Case, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.formats import number_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_counters.adjustments import approval
from django_counters.adjustments.adjustment import preview
from django_counters.adjustments.orders import Person, person_of, request_id_of
from django_counters.admin.adjusting import spelt
from django_counters.admin.forms import ApproveForm, RejectForm
from django_counters.admin.readonly import ReadOnlyAdmin, linked, named, row_url
from django_counters.admin.refusals import said
from django_counters.admin.subjects import Seen, is_gone, seen, visible
from django_counters.exceptions import CounterError, RecordMissing
from django_counters.models import AdjustmentRequest, CounterAdjustment
from django_counters.templatetags.counters_admin import grouped, signed

_WAITING = AdjustmentRequest.State.WAITING
# Requests on the page of a counter.
MOST_SHOWN = 20
_WAITING_FIRST = Case(When(state=_WAITING, then=0), default=1).asc()


class RequestAdmin(ReadOnlyAdmin):
    """Requests for adjustments. A second person who may approve decides on the page of one."""

    change_form_template = "admin/django_counters/request.html"
    list_display = (
        *("number", "counter_name", "wanted", "reason"),
        *("requester_name", "created_at", "decision"),
    )
    list_display_links = ("number", "counter_name")
    list_filter = ("state", "created_at")
    ordering = (_WAITING_FIRST, "-pk")
    search_fields = ("key", "reason", "case", "requester_name", "decider_name")
    search_help_text = _("A part of the key, the reason, the case or a name")
    sortable_by = ()
    readonly_fields = fields = (
        *("counter_name", "wanted", "known", "reason", "case", "allow_below_floor"),
        *("requester_name", "requester_id", "created_at"),
        *("state", "decider_name", "decider_id", "decided_at", "note", "adjusted"),
    )

    @admin.display(description=_("number"))
    def number(self, waiting: Any) -> Any:
        """The number of the request."""
        return waiting.pk

    @admin.display(description=_("counter"))
    def counter_name(self, waiting: Any) -> str:
        """The counter to adjust."""
        return str(waiting.subject)

    @admin.display(description=_("wanted"))
    def wanted(self, waiting: Any) -> str:
        """The new value, or the change."""
        return wanted_of(waiting)

    @admin.display(description=_("value when it was asked for"))
    def known(self, waiting: Any) -> str:
        """The value that the requester saw."""
        return grouped(waiting.expected)

    @admin.display(description=_("state"))
    def decision(self, waiting: Any) -> str:
        """The state, and who decided."""
        state = waiting.get_state_display()
        return f"{state} ({waiting.decider_name})" if waiting.decider_name else str(state)

    @admin.display(description=_("adjustment"))
    def adjusted(self, waiting: Any) -> str:
        """A link to the adjustment that it led to."""
        if waiting.adjustment is None:
            return "–"  # noqa: RUF001
        text = number_format(waiting.adjustment)
        return linked(self.admin_site, CounterAdjustment, waiting.adjustment, text)

    def has_approve_permission(self, request: HttpRequest, waiting: Any = None) -> bool:
        """Whether this user may decide on requests, or on this one: never on their own."""
        allowed = request.user.has_perm("django_counters.approve_adjustment")
        return allowed and (waiting is None or not self._is_own(request, waiting))

    def get_urls(self) -> list[URLPattern]:
        """Adds the addresses that decide."""
        own = [
            path(
                f"<path:object_id>/{verb}/",
                self.admin_site.admin_view(view),
                name=named(self.model, verb),
            )
            for verb, view in (("approve", self.approve_view), ("reject", self.reject_view))
        ]
        return [*own, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The request, with a preview."""
        waiting: Any = self.get_object(request, unquote(object_id))
        shown = waiting is not None and self.has_view_permission(request, waiting)
        context = self._decision(request, waiting) if shown else {}
        return super().change_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )

    @method_decorator(require_POST)
    def approve_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Approve the request, and adjust the counter."""

        def approve(waiting: Any) -> str:
            form = ApproveForm(request.POST)
            if not form.is_valid():
                raise _Incomplete(gettext("Nothing was changed: look at the value first."))
            _request, row = approval.approve(
                waiting.pk,
                approver=request.user,
                expected=form.cleaned_data["expected"],
                last=form.cleaned_data["last"],
                request_id=request_id_of(request.headers.get("X-Request-ID", "")),
            )
            return gettext("%(counter)s was adjusted from %(before)s to %(after)s.") % {
                "counter": row.subject,
                "before": grouped(row.before),
                "after": grouped(row.after),
            }

        return self._decided(request, object_id, approve)

    @method_decorator(require_POST)
    def reject_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Reject the request."""

        def reject(waiting: Any) -> str:
            form = RejectForm(request.POST)
            if not form.is_valid():
                raise _Incomplete(gettext("Nothing was changed: say why it is rejected."))
            approval.reject(waiting.pk, actor=request.user, note=form.cleaned_data["note"])
            return gettext("The request was rejected. Nothing was changed.")

        return self._decided(request, object_id, reject, even_gone=True)

    def _decided(
        self,
        request: HttpRequest,
        object_id: str,
        decide: Callable[[Any], str],
        *,
        even_gone: bool = False,
    ) -> HttpResponse:
        waiting = self._permitted(request, object_id, even_gone=even_gone)
        try:
            messages.success(request, spelt(decide(waiting)))
        except _Incomplete as error:
            messages.error(request, str(error))
        except CounterError as error:
            messages.error(request, spelt(said(error)))
        return HttpResponseRedirect(row_url(self.admin_site, self.model, waiting.pk))

    def _permitted(self, request: HttpRequest, object_id: str, *, even_gone: bool) -> Any:
        """A request that this user may decide on. It may be decided already."""
        if not (self.has_view_permission(request) and self.has_approve_permission(request)):
            raise PermissionDenied
        waiting: Any = self.get_object(request, unquote(object_id))
        if waiting is None:
            raise Http404
        allowed = self.has_view_permission(request, waiting)
        if not (allowed and self.has_approve_permission(request, waiting)):
            raise PermissionDenied
        if not (even_gone and is_gone(waiting.field, waiting.key)):
            self._counter(request, waiting)
        return waiting

    def _decision(self, request: HttpRequest, waiting: Any) -> dict[str, Any]:
        """The context of a request. It shows the counter to a user who may see that."""
        context: dict[str, Any] = {
            "waits": waiting.state == _WAITING,
            "is_own": self._is_own(request, waiting),
            "may_decide": self.has_approve_permission(request, waiting),
        }
        try:
            counter = self._counter(request, waiting)
        except (Http404, PermissionDenied):
            if is_gone(waiting.field, waiting.key):
                error = RecordMissing(key=str(waiting.subject))
                return {**context, "problem": said(error), "reject_form": RejectForm()}
            return {**context, "may_decide": False, "is_hidden": True}
        context |= {"counter": counter.subject, "counter_url": counter.url}
        if context["waits"]:
            context |= _foreseen(counter, waiting)
        return {**context, "reject_form": RejectForm()}

    def _counter(self, request: HttpRequest, waiting: Any) -> Seen:
        return seen(self.admin_site, request, waiting.field, waiting.key)

    def _is_own(self, request: HttpRequest, waiting: Any) -> bool:
        me: Person = person_of(request.user, "a user")
        return approval.requester_of(waiting).is_same(me)


def wanted_of(waiting: Any) -> str:
    """The content of a request: the new value, or the change."""
    if waiting.to is not None:
        return gettext("to %(value)s") % {"value": grouped(waiting.to)}
    return gettext("by %(change)s") % {"change": signed(waiting.by)}


def waiting_of(
    site: admin.AdminSite, request: HttpRequest, key: str
) -> list[tuple[AdjustmentRequest, str, str]]:
    """The requests of a named counter that wait, the latest first: the text of each, and the page.

    Only those that the user may see.
    """
    try:
        rows = visible(site, request, AdjustmentRequest)
    except PermissionDenied:
        return []
    found = rows.filter(field="", key=key, state=_WAITING).order_by("-pk")[:MOST_SHOWN]
    return [(row, wanted_of(row), row_url(site, AdjustmentRequest, row.pk)) for row in found]


class _Incomplete(Exception):
    """A form that was not filled in."""


def _foreseen(counter: Seen, waiting: Any) -> dict[str, Any]:
    try:
        found = preview(
            counter.subject,
            to=waiting.to,
            by=waiting.by,
            allow_below_floor=waiting.allow_below_floor,
        )
    except CounterError as error:
        return {"problem": said(error)}
    if found.refusal and not found.needs_approval:
        return {"preview": found, "problem": said(found.refusal)}
    return {"preview": found}
