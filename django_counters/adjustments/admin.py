"""Adjustments in the admin: the form, the list, and the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import router
from django.db.models import Case, Q, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.module_loading import import_string
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST

from django_counters import clock, errors
from django_counters.adjustments import adjustment, approval
from django_counters.adjustments.forms import BY, TO, AdjustForm, ApproveForm, RejectForm
from django_counters.admin import readonly
from django_counters.features import Panel, features
from django_counters.measure import Measure
from django_counters.models import AdjustmentRequest, Counter, CounterAdjustment
from django_counters.templatetags.counters_admin import grouped, signed
from django_counters.tokens import mint

# Errors of the number field.
_OF_NUMBER = (
    errors.CeilingExceeded,
    errors.CounterOverflow,
    errors.InsufficientCount,
    errors.InvalidDelta,
)
# The request for a preview.
_NUMBERS = ("to", "by", "allow_below_floor")


class AdjustingMixin(readonly.ReadOnlyAdmin):
    """Adds the form that adjusts any counter: ``adjust/?field=shop.Product.stock&key=42``.

    Each step checks the permission.
    """

    def has_adjust_permission(
        self,
        request: HttpRequest,
        counter: readonly.VisibleCounter | None = None,  # noqa: ARG002
    ) -> bool:
        """Return whether the user may adjust counters, or this counter, which they may view."""
        return request.user.has_perm("django_counters.adjust_counter")

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses of the form and of other apps' panels."""
        view = self.admin_site.admin_view(self.adjust_view)
        further = [url for panel in panels() for url in panel.urls(self)]
        own = path("adjust/", view, name="django_counters_adjust")
        return [own, *further, *super().get_urls()]

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def adjust_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form or its preview, or adjust."""
        return _Steps(self, request, self.adjustable(request)).answer()

    def adjustable(self, request: HttpRequest) -> readonly.VisibleCounter:
        """Return the counter in the address.

        Raises:
            Http404: it doesn't exist, or the user can't see it.
            PermissionDenied: the user may not adjust it.
        """
        if not self.has_adjust_permission(request):
            raise PermissionDenied
        place, key = request.GET.get("field", ""), request.GET.get("key", "")
        counter = readonly.seen(self.admin_site, request, place, key)
        if not self.has_adjust_permission(request, counter):
            raise PermissionDenied
        return counter


class _Steps:
    """One request of a user who may adjust the counter."""

    def __init__(
        self, page: AdjustingMixin, request: HttpRequest, counter: readonly.VisibleCounter
    ) -> None:
        self.site = page.admin_site
        self.opts = page.opts
        self.request = request
        self.counter = counter

    def answer(self) -> HttpResponse:
        """Return the page of the requested step, or of an earlier one."""
        bounds = self.counter.subject.bounds
        if self.request.method != "POST":
            return self._form_page(AdjustForm(bounds=bounds))
        sent = _sent(self.request.POST)
        form, step = AdjustForm(sent, bounds=bounds), sent.get("step")
        if not form.is_valid() or step == "edit":
            return self._form_page(form)
        return self._confirmed(form) if step == "confirm" else self._preview_page(form)

    def _form_page(self, form: AdjustForm) -> HttpResponse:
        """Return the first step. It shows the present value, which the next step expects."""
        form.focus()
        expected = form.cleaned_data.get("expected") if form.is_bound else None
        last = form.cleaned_data.get("last") if form.is_bound else None
        context: dict[str, Any] = {
            "title": gettext("Adjust %(counter)s") % {"counter": self.counter.subject.label}
        }
        try:
            now = adjustment.preview(self.counter.subject, by=1)
            expected, last = now.before, now.last
            context["value"] = now.before
        except errors.CounterError as error:
            if readonly.said(error) not in form.non_field_errors():
                context["problem"] = readonly.said(error)
        return self._page(form, (expected, last), "adjust.html", context)

    def _preview_page(self, form: AdjustForm) -> HttpResponse:
        """Return the second step: a preview. Changes nothing."""
        try:
            numbers = {name: form.asked[name] for name in _NUMBERS if name in form.asked}
            effect = adjustment.preview(self.counter.subject, **numbers)
        except errors.CounterError as error:
            return self._refused(form, error)
        if effect.refusal and not effect.needs_approval:
            return self._refused(form, effect.refusal)
        title = gettext("Confirm: adjust %(counter)s")
        context = {
            "title": title % {"counter": self.counter.subject.label},
            "preview": effect,
            "changed_since": _changed_since(form, effect),
            "change": _offered(form, effect),
            "below": form.asked["allow_below_floor"],
        }
        return self._page(form, (effect.before, effect.last), "adjust_confirm.html", context)

    def _page(
        self,
        form: AdjustForm,
        known: tuple[int | None, int | None],
        template: str,
        context: dict[str, Any],
    ) -> HttpResponse:
        """Return a page whose form sends the shown value, and the same token while it's valid."""
        sent = form.cleaned_data.get("token") if form.is_bound else None
        context |= {
            **self.site.each_context(self.request),
            "opts": self.opts,
            "counter": self.counter.subject,
            "crumb": self.counter.subject.label if self.counter.url else "",
            "crumb_url": self.counter.url,
            "expected": known[0],
            "last": known[1],
            "form": form,
            "token": sent or mint(clock.utc()),
        }
        self.request.current_app = self.site.name
        return TemplateResponse(self.request, f"admin/django_counters/{template}", context)

    def _confirmed(self, form: AdjustForm) -> HttpResponse:
        """Run the last step: adjust, make a request, or show the problem."""
        data = form.cleaned_data
        asked = {**form.asked, "actor": self.request.user}
        asked |= {name: data[name] for name in ("expected", "token")}
        try:
            try:
                row = adjustment.adjust(
                    self.counter.subject,
                    data["last"],
                    **asked,
                    request_id=adjustment.request_id_of(
                        self.request.headers.get("X-Request-ID", "")
                    ),
                )
            except errors.ApprovalRequired:
                self._tell_asked(approval.ask(self.counter.subject, data["last"], **asked))
            else:
                self._tell_adjusted(row)
        except errors.ValueChanged:
            return self._preview_page(form)
        except errors.CounterError as error:
            return self._refused(form, error)
        return HttpResponseRedirect(self.counter.url or readonly.address(self.site, "index"))

    def _refused(self, form: AdjustForm, error: errors.CounterError) -> HttpResponse:
        """Return the first step with the error."""
        if isinstance(error, errors.TokenConflict | errors.TokenExpired):
            del form.cleaned_data["token"]
        form.add_error("number" if isinstance(error, _OF_NUMBER) else None, readonly.said(error))
        return self._form_page(form)

    def _tell_adjusted(self, row: CounterAdjustment) -> None:
        what = gettext("adjustment %(number)s") % {"number": number_format(row.number)}
        values = {"counter": row.subject, "adjustment": self._link(row, what)}
        if row.replayed:
            text = gettext("{counter} was adjusted by this form before, see {adjustment}.")
            messages.warning(self.request, spelt(format_html(text, **values)))
            return
        text = gettext("{counter} was adjusted from {before} to {after}: {adjustment}.")
        values |= {"before": grouped(row.before), "after": grouped(row.after)}
        messages.success(self.request, spelt(format_html(text, **values)))

    def _tell_asked(self, waiting: AdjustmentRequest) -> None:
        what = gettext("request %(number)s") % {"number": number_format(waiting.pk)}
        link = self._link(waiting, what)
        text = gettext("Nothing is changed yet: {request} waits for a second person.")
        messages.warning(self.request, format_html(text, request=link))

    def _link(self, row: Any, text: str) -> str:
        """Return a link to a row's page if the user may view it, else the text."""
        model = type(row)
        # For a row of another database, the page of its number shows a different row.
        if not self.site.is_registered(model) or row._state.db != router.db_for_write(model):
            return text
        if not self.site.get_model_admin(model).has_view_permission(self.request, row):
            return text
        return readonly.linked(self.site, model, row.pk, text)


def adjust_url(site: admin.AdminSite, field: str, key: str, measure: Measure | None) -> str:
    """Return the address of the form for one counter; empty if the site doesn't have it.

    It is also empty if the value is the number of actors: such a counter can't be adjusted.
    """
    if measure is not None and measure.counts_rows:
        return ""
    return form_url(site, "django_counters_adjust", field, key)


def form_url(site: admin.AdminSite, name: str, field: str, key: str) -> str:
    """Return the address of a form for one counter; empty if the site doesn't have it."""
    url = readonly.address(site, name)
    return url and f"{url}?{urlencode({'field': field, 'key': key})}"


def spelt(text: str) -> str:
    """Return a message that Django won't capitalize: it may begin with a key or a name."""
    return format_html("<span>{}</span>", text)


def _changed_since(form: AdjustForm, effect: adjustment.Preview) -> int | None:
    """Return the value that the user saw, if it has changed and that matters."""
    expected, last = form.cleaned_data["expected"], form.cleaned_data["last"]
    moved = form.cleaned_data["how"] == TO or last != effect.last
    return expected if moved and expected != effect.before else None


def _sent(data: QueryDict) -> dict[str, Any]:
    """Return the sent values, with the offered change instead of the value if chosen."""
    sent = data.dict()
    return {**sent, "how": BY, "number": data["change"]} if "change" in data else sent


def _offered(form: AdjustForm, effect: adjustment.Preview) -> int | None:
    """Return the change that the new value meant for the value that the user saw.

    None if nothing was counted since then, or if another person has adjusted the counter: both may
    have corrected the same mistake.
    """
    data = form.cleaned_data
    since = _changed_since(form, effect)
    if since is None or data["how"] != TO or data["last"] != effect.last:
        return None
    return int(data["number"]) - since or None


class PeopleFilter(readonly.ChoiceFilter):
    """Filters by approval."""

    title = _("approval")
    parameter_name = "approved"

    # An adjustment without approval has no approver's name.
    choices_of = {
        "yes": (_("approved"), ~Q(approver_name="")),
        "no": (_("by one person"), Q(approver_name="")),
    }


class SubjectFilter(readonly.ChoiceFilter):
    """Filters by named counters and counters of records."""

    title = _("counter")
    parameter_name = "of"

    # A named counter has no field.
    choices_of = {
        "names": (_("named counters"), Q(field="")),
        "records": (_("counters of records"), ~Q(field="")),
    }


class AdjustmentAdmin(readonly.ExportAdmin):
    """Adjustments, the latest first."""

    list_display = (*("number", "counter", "changed", "reason", "people", "created_at"),)
    list_filter = (SubjectFilter, PeopleFilter, "created_at")
    ordering = ("-number",)
    search_fields = ("key", "reason", "case", "actor_name", "approver_name", "request_id")
    search_help_text = _("A part of the key, the reason, the case, a name or the request id")
    sortable_by = ("number",)
    readonly_fields = fields = (
        *("number", "counter", "changed", "reason", "case"),
        *("actor_name", "actor_id", "approver_name", "approver_id"),
        *("request_id", "entry", "created_at", "digest"),
    )
    export_columns = tuple(field.name for field in CounterAdjustment._meta.concrete_fields)

    @admin.display(description=_("change"))
    def changed(self, row: Any) -> str:
        """Return the change, the value before and the value after."""
        numbers = map(grouped, (row.before, row.after))
        return format_html(
            '{} <span class="counters-fromto"><span>{} →</span> <span>{}</span></span>',
            signed(row.delta),
            *numbers,
        )

    @admin.display(description=_("adjusted by"))
    def people(self, row: Any) -> str:
        """Return the actor, and the approver if there is one."""
        if not row.approver_name:
            return str(row.actor_name)
        names = (row.actor_name, gettext("approved by"), row.approver_name)
        return format_html('{} <span class="counters-landed">({} {})</span>', *names)

    @admin.display(description=_("counter"))
    def counter(self, row: Any) -> str:
        """Return the adjusted counter; a named one with a link to its page."""
        if row.field:
            return str(row.subject)
        return readonly.linked(self.admin_site, Counter, row.key, row.key)


_WAITING = AdjustmentRequest.State.WAITING
# Requests on the page of a counter.
MOST_SHOWN = 20
_WAITING_FIRST = Case(When(state=_WAITING, then=0), default=1).asc()


class RequestAdmin(readonly.ReadOnlyAdmin):
    """Requests for adjustments. A second person who may approve decides on a request's page."""

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
        """Return the number of the request."""
        return waiting.pk

    @admin.display(description=_("counter"))
    def counter_name(self, waiting: Any) -> str:
        """Return the counter to adjust."""
        return str(waiting.subject)

    @admin.display(description=_("wanted"))
    def wanted(self, waiting: Any) -> str:
        """Return the new value, or the change."""
        return wanted_of(waiting)

    @admin.display(description=_("value when requested"))
    def known(self, waiting: Any) -> str:
        """Return the value that the requester saw."""
        return grouped(waiting.expected)

    @admin.display(description=_("state"))
    def decision(self, waiting: Any) -> str:
        """Return the state, and the name of the person who decided."""
        state = waiting.get_state_display()
        return f"{state} ({waiting.decider_name})" if waiting.decider_name else str(state)

    @admin.display(description=_("adjustment"))
    def adjusted(self, waiting: Any) -> str:
        """Return a link to the request's adjustment."""
        if waiting.adjustment is None:
            return "–"  # noqa: RUF001
        text = number_format(waiting.adjustment)
        return readonly.linked(self.admin_site, CounterAdjustment, waiting.adjustment, text)

    def has_approve_permission(self, request: HttpRequest, waiting: Any = None) -> bool:
        """Return whether the user may decide on requests, or on this one: never on their own."""
        allowed = request.user.has_perm("django_counters.approve_adjustment")
        return allowed and (waiting is None or not self._is_own(request, waiting))

    def get_urls(self) -> list[URLPattern]:
        """Add the addresses that decide."""
        own = [
            path(
                f"<path:object_id>/{verb}/",
                self.admin_site.admin_view(view),
                name=readonly.named(self.model, verb),
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
        """Show the request, with a preview."""
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
                raise _Incomplete(gettext("Nothing was changed. Look at the value first."))
            _request, row = approval.approve(
                waiting.pk,
                approver=request.user,
                expected=form.cleaned_data["expected"],
                last=form.cleaned_data["last"],
                request_id=adjustment.request_id_of(request.headers.get("X-Request-ID", "")),
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
                raise _Incomplete(gettext("Nothing was changed. Give a reason for the rejection."))
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
        except errors.CounterError as error:
            messages.error(request, spelt(readonly.said(error)))
        return HttpResponseRedirect(readonly.row_url(self.admin_site, self.model, waiting.pk))

    def _permitted(self, request: HttpRequest, object_id: str, *, even_gone: bool) -> Any:
        """Return a request that the user may decide on. It may be decided already."""
        if not (self.has_view_permission(request) and self.has_approve_permission(request)):
            raise PermissionDenied
        waiting: Any = self.get_object(request, unquote(object_id))
        if waiting is None:
            raise Http404
        allowed = self.has_view_permission(request, waiting)
        if not (allowed and self.has_approve_permission(request, waiting)):
            raise PermissionDenied
        if not (even_gone and readonly.is_gone(waiting.field, waiting.key)):
            self._counter(request, waiting)
        return waiting

    def _decision(self, request: HttpRequest, waiting: Any) -> dict[str, Any]:
        """Return the context of a request; with the counter, if the user may see it."""
        context: dict[str, Any] = {
            "waits": waiting.state == _WAITING,
            "is_own": self._is_own(request, waiting),
            "may_decide": self.has_approve_permission(request, waiting),
        }
        try:
            counter = self._counter(request, waiting)
        except (Http404, PermissionDenied):
            if readonly.is_gone(waiting.field, waiting.key):
                error = errors.RecordMissing(key=str(waiting.subject))
                return {**context, "problem": readonly.said(error), "reject_form": RejectForm()}
            return {**context, "may_decide": False, "is_hidden": True}
        context |= {"counter": counter.subject, "counter_url": counter.url}
        if context["waits"]:
            context |= _foreseen(counter, waiting)
        return {**context, "reject_form": RejectForm()}

    def _counter(self, request: HttpRequest, waiting: Any) -> readonly.VisibleCounter:
        return readonly.seen(self.admin_site, request, waiting.field, waiting.key)

    def _is_own(self, request: HttpRequest, waiting: Any) -> bool:
        me: adjustment.Person = adjustment.person_of(request.user, "user")
        return approval.requester_of(waiting).is_same(me)


def wanted_of(waiting: Any) -> str:
    """Return the new value or the change that a request asks for."""
    if waiting.to is not None:
        return gettext("to %(value)s") % {"value": grouped(waiting.to)}
    return gettext("by %(change)s") % {"change": signed(waiting.by)}


def waiting_of(
    site: admin.AdminSite, request: HttpRequest, key: str
) -> list[tuple[AdjustmentRequest, str, str]]:
    """Return a named counter's undecided requests that the user may see, the latest first.

    Each has its text and the address of its page.
    """
    try:
        rows = readonly.visible(site, request, AdjustmentRequest)
    except PermissionDenied:
        return []
    waiting = rows.filter(field="", key=key, state=_WAITING).order_by("-pk")[:MOST_SHOWN]
    return [
        (row, wanted_of(row), readonly.row_url(site, AdjustmentRequest, row.pk)) for row in waiting
    ]


class _Incomplete(Exception):
    """The form isn't complete."""


def _foreseen(counter: readonly.VisibleCounter, waiting: Any) -> dict[str, Any]:
    try:
        effect = adjustment.preview(
            counter.subject,
            to=waiting.to,
            by=waiting.by,
            allow_below_floor=waiting.allow_below_floor,
        )
    except errors.CounterError as error:
        return {"problem": readonly.said(error)}
    if effect.refusal and not effect.needs_approval:
        return {"preview": effect, "problem": readonly.said(effect.refusal)}
    return {"preview": effect}


def panels() -> list[Panel]:
    """Return the sections that apps add to the page of a counter."""
    return [import_string(feature.panel)() for feature in features() if feature.panel]
