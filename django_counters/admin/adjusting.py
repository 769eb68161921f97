"""Adjusting a counter in the admin: a form, a preview, and only then a change."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import router
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from django_counters import clock
from django_counters import exceptions as errors
from django_counters.adjustments.adjustment import Preview, adjust, preview
from django_counters.adjustments.approval import ask
from django_counters.adjustments.orders import request_id_of
from django_counters.admin.forms import BY, TO, AdjustForm
from django_counters.admin.readonly import ReadOnlyAdmin, address, linked
from django_counters.admin.refusals import said
from django_counters.admin.subjects import Seen, seen
from django_counters.features import panels
from django_counters.measure import Measure
from django_counters.models import AdjustmentRequest, CounterAdjustment
from django_counters.templatetags.counters_admin import grouped
from django_counters.tokens import mint

# Errors that another number would avoid.
_OF_NUMBER = (
    errors.CeilingExceeded,
    errors.CounterOverflow,
    errors.InsufficientCount,
    errors.InvalidDelta,
)
# The request for a preview.
_NUMBERS = ("to", "by", "allow_below_floor")


class AdjustingMixin(ReadOnlyAdmin):
    """Adds the form that adjusts any counter: ``adjust/?field=shop.Product.stock&key=42``.

    Each step checks the permission.
    """

    def has_adjust_permission(self, request: HttpRequest, counter: Seen | None = None) -> bool:  # noqa: ARG002
        """Whether this user may adjust counters, or this counter, which the user may view."""
        return request.user.has_perm("django_counters.adjust_counter")

    def get_urls(self) -> list[URLPattern]:
        """Adds the address of the form, and those of other apps."""
        view = self.admin_site.admin_view(self.adjust_view)
        further = [url for panel in panels() for url in panel.urls(self)]
        own = path("adjust/", view, name="django_counters_adjust")
        return [own, *further, *super().get_urls()]

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    def adjust_view(self, request: HttpRequest) -> HttpResponse:
        """The form, its preview, and the adjustment."""
        return _Steps(self, request, self.adjustable(request)).answer()

    def adjustable(self, request: HttpRequest) -> Seen:
        """The counter that the address names.

        Raises:
            Http404: there is none, or the user cannot see it.
            PermissionDenied: the user may not adjust it.
        """
        if not self.has_adjust_permission(request):
            raise PermissionDenied
        place, key = request.GET.get("field", ""), request.GET.get("key", "")
        counter = seen(self.admin_site, request, place, key)
        if not self.has_adjust_permission(request, counter):
            raise PermissionDenied
        return counter


class _Steps:
    """One request of a user who may adjust the counter."""

    def __init__(self, page: AdjustingMixin, request: HttpRequest, counter: Seen) -> None:
        self.site = page.admin_site
        self.opts = page.opts
        self.request = request
        self.counter = counter

    def answer(self) -> HttpResponse:
        """The page of the requested step, or of an earlier one."""
        bounds = self.counter.subject.bounds
        if self.request.method != "POST":
            return self._form_page(AdjustForm(bounds=bounds))
        sent = _sent(self.request.POST)
        form, step = AdjustForm(sent, bounds=bounds), sent.get("step")
        if not form.is_valid() or step == "edit":
            return self._form_page(form)
        return self._confirmed(form) if step == "confirm" else self._preview_page(form)

    def _form_page(self, form: AdjustForm) -> HttpResponse:
        """The first step. It shows the present value, which the next step expects."""
        form.focus()
        expected = form.cleaned_data.get("expected") if form.is_bound else None
        last = form.cleaned_data.get("last") if form.is_bound else None
        context: dict[str, Any] = {
            "title": _("Adjust %(counter)s") % {"counter": self.counter.subject.label}
        }
        try:
            found = preview(self.counter.subject, by=1)
            expected, last = found.before, found.last
            context["value"] = found.before
        except errors.CounterError as error:
            if said(error) not in form.non_field_errors():
                context["problem"] = said(error)
        return self._page(form, (expected, last), "adjust.html", context)

    def _preview_page(self, form: AdjustForm) -> HttpResponse:
        """The second step: a preview. Nothing is changed yet."""
        try:
            numbers = {name: form.asked[name] for name in _NUMBERS if name in form.asked}
            found = preview(self.counter.subject, **numbers)
        except errors.CounterError as error:
            return self._refused(form, error)
        if found.refusal and not found.needs_approval:
            return self._refused(form, found.refusal)
        context = {
            "title": _("Confirm: adjust %(counter)s") % {"counter": self.counter.subject.label},
            "preview": found,
            "changed_since": _changed_since(form, found),
            "change": _offered(form, found),
            "below": form.asked["allow_below_floor"],
        }
        return self._page(form, (found.before, found.last), "adjust_confirm.html", context)

    def _page(
        self,
        form: AdjustForm,
        known: tuple[int | None, int | None],
        template: str,
        context: dict[str, Any],
    ) -> HttpResponse:
        """A page whose form sends the shown value, and the same token while it is valid."""
        context |= {
            **self.site.each_context(self.request),
            "opts": self.opts,
            "counter": self.counter.subject,
            "crumb": self.counter.subject.label if self.counter.url else "",
            "crumb_url": self.counter.url,
            "expected": known[0],
            "last": known[1],
            "form": form,
            "token": _token(form),
        }
        self.request.current_app = self.site.name
        return TemplateResponse(self.request, f"admin/django_counters/{template}", context)

    def _confirmed(self, form: AdjustForm) -> HttpResponse:
        """The last step: adjust, ask a second person, or show the problem."""
        data = form.cleaned_data
        asked = {
            **form.asked,
            "expected": data["expected"],
            "last": data["last"],
            "actor": self.request.user,
        }
        try:
            try:
                row = adjust(
                    self.counter.subject,
                    **asked,
                    request_id=request_id_of(self.request.headers.get("X-Request-ID", "")),
                    token=data["token"],
                )
            except errors.ApprovalRequired:
                waiting = ask(self.counter.subject, **asked, token=data["token"])
                self._tell_asked(waiting)
            else:
                self._tell_adjusted(row)
        except errors.ValueChanged:
            return self._preview_page(form)
        except errors.CounterError as error:
            return self._refused(form, error)
        return HttpResponseRedirect(self.counter.url or address(self.site, "index"))

    def _refused(self, form: AdjustForm, error: errors.CounterError) -> HttpResponse:
        """The first step again, with the error."""
        if isinstance(error, errors.TokenConflict | errors.TokenExpired):
            del form.cleaned_data["token"]
        form.add_error("number" if isinstance(error, _OF_NUMBER) else None, said(error))
        return self._form_page(form)

    def _tell_adjusted(self, row: CounterAdjustment) -> None:
        what = _("adjustment %(number)s") % {"number": number_format(row.number)}
        told = {"counter": row.subject, "adjustment": self._link(row, what)}
        if row.replayed:
            text = _("{counter} was adjusted by this form before, see {adjustment}.")
            messages.warning(self.request, spelt(format_html(text, **told)))
            return
        text = _("{counter} was adjusted from {before} to {after}: {adjustment}.")
        told |= {"before": grouped(row.before), "after": grouped(row.after)}
        messages.success(self.request, spelt(format_html(text, **told)))

    def _tell_asked(self, waiting: AdjustmentRequest) -> None:
        what = _("request %(number)s") % {"number": number_format(waiting.pk)}
        link = self._link(waiting, what)
        text = _("Nothing is changed yet: {request} waits for a second person.")
        messages.warning(self.request, format_html(text, request=link))

    def _link(self, row: Any, text: str) -> str:
        """A link to the page of a row for a user who may view it, else the text."""
        model = type(row)
        # The page of this number shows a row of another database.
        if not self.site.is_registered(model) or row._state.db != router.db_for_write(model):
            return text
        if not self.site.get_model_admin(model).has_view_permission(self.request, row):
            return text
        return linked(self.site, model, row.pk, text)


def adjust_url(site: admin.AdminSite, field: str, key: str, measure: Measure | None) -> str:
    """The address of the form for one counter; empty if the site does not have it.

    Also where the value is how many actors there are: such a counter cannot be adjusted.
    """
    if measure is not None and measure.counts_actors:
        return ""
    return form_url(site, "django_counters_adjust", field, key)


def form_url(site: admin.AdminSite, name: str, field: str, key: str) -> str:
    """The address of a form for one counter; empty if the site does not have it."""
    url = address(site, name)
    return url and f"{url}?{urlencode({'field': field, 'key': key})}"


def spelt(text: str) -> str:
    """A message that Django does not capitalize, because it may begin with a key or a name."""
    return format_html("<span>{}</span>", text)


def _changed_since(form: AdjustForm, found: Preview) -> int | None:
    """The value that the user saw before, if a change of it matters."""
    expected, last = form.cleaned_data["expected"], form.cleaned_data["last"]
    moved = form.cleaned_data["how"] == TO or last != found.last
    return expected if moved and expected != found.before else None


def _sent(data: QueryDict) -> dict[str, Any]:
    """The values sent, with the offered change in place of the value if the user has chosen it."""
    sent = data.dict()
    return {**sent, "how": BY, "number": data["change"]} if "change" in data else sent


def _offered(form: AdjustForm, found: Preview) -> int | None:
    """The change that a new value meant when the user saw the value before.

    None if nothing was counted meanwhile. Also if another person has adjusted it: both may have
    corrected the same mistake.
    """
    data = form.cleaned_data
    since = _changed_since(form, found)
    if since is None or data["how"] != TO or data["last"] != found.last:
        return None
    return int(data["number"]) - since or None


def _token(form: AdjustForm) -> UUID:
    """The token of the sent form, or a new one."""
    given: UUID | None = form.cleaned_data.get("token") if form.is_bound else None
    return given or mint(clock.utc())
