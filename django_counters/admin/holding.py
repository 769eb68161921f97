"""The holds of a counter, on its page or that of its record, and the form that gives it back."""

from __future__ import annotations

from typing import NamedTuple

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from django_counters.adjustments.admin import AdjustingMixin, form_url
from django_counters.adjustments.forms import AdjustForm
from django_counters.adjustments.orders import request_id_of
from django_counters.adjustments.releasing import release_hold
from django_counters.admin.readonly import address
from django_counters.admin.refusals import said
from django_counters.exceptions import CounterError, HoldEnded, HoldMissing
from django_counters.templatetags.counters_admin import grouped
from django_counters.write.change import Ref
from django_counters.write.holds import Hold, find, held

_MOST = 100
_RELEASE = "django_counters_release"


class HoldingMixin(AdjustingMixin):
    """Adds the form that gives back what is held of any counter, for who may adjust that one.

    ``release/?field=shop.Product.stock&key=42``; the hold is named by its token.
    """

    def get_urls(self) -> list[URLPattern]:
        """Adds the address of the form."""
        view = self.admin_site.admin_view(self.release_view)
        return [path("release/", view, name=_RELEASE), *super().get_urls()]

    @method_decorator(require_POST)
    def release_view(self, request: HttpRequest) -> HttpResponse:
        """Give back what is held, and show the page of the counter or of its record."""
        counter = self.adjustable(request)
        _release(request, counter.subject)
        return HttpResponseRedirect(counter.url or address(self.admin_site, "index"))


def _release(request: HttpRequest, counter: Ref) -> None:
    try:
        hold = _hold_of(counter, request.POST.get("token", ""))
        reason = AdjustForm.base_fields["reason"].clean(request.POST.get("reason", ""))
        row = release_hold(
            hold.token,
            hold.using,
            reason=reason,
            actor=request.user,
            request_id=request_id_of(request.headers.get("X-Request-ID", "")),
        )
    except forms.ValidationError as error:
        messages.error(request, " ".join([_("Reason:"), *error.messages]))
    except (HoldEnded, HoldMissing):
        messages.warning(request, _("This is not held any more. Nothing was changed."))
    except CounterError as error:
        messages.error(request, said(error))
    else:
        text = _("%(quantity)s were given back: adjustment %(number)s.")
        told = {"quantity": grouped(row.delta), "number": number_format(row.number)}
        messages.success(request, text % told)


def _hold_of(counter: Ref, token: str) -> Hold:
    """The hold with a token, of this counter."""
    if not token or "\0" in token:
        raise HoldMissing(token=token)
    hold = find(token, counter.using)
    if (hold.field, hold.key) != (counter.owner, counter.text):
        raise HoldMissing(token=token)
    return hold


class Held(NamedTuple):
    """The holds of one counter.

    Attributes:
        rows: the first to expire first.
        release_url: the address of the form; empty for a user who may not give it back.
        name: what people call the field; empty for a named counter.
    """

    rows: list[Hold]
    release_url: str
    name: str = ""


def held_of(
    counter: Ref, site: admin.AdminSite, *, releases: bool, field: str = "", name: str = ""
) -> list[Held]:
    """The holds of a counter; empty where nothing is. ``field``: as the form names it."""
    rows = held(counter, _MOST)
    url = form_url(site, _RELEASE, field, counter.text) if releases else ""
    return [Held(rows, url, name)] if rows else []
