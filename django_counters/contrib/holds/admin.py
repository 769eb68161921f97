"""The section of holds on the page of a counter or a record, and the form that gives one back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from django_counters.adjustments.adjustment import request_id_of
from django_counters.adjustments.forms import AdjustForm
from django_counters.admin import AdjustingMixin, form_url
from django_counters.admin.readonly import address, said
from django_counters.contrib.holds.errors import HoldEnded, HoldMissing
from django_counters.contrib.holds.holding import Hold, find, of, release
from django_counters.errors import CounterError, InvalidKey
from django_counters.features import OnPage, Panel
from django_counters.templatetags.counters_admin import grouped
from django_counters.write.changes import Ref
from django_counters.write.records import ref_of

_MOST = 100
_RELEASE = "django_counters_release"


class HoldsPanel(Panel):
    """Shows the holds of a counter, with a form for users who may adjust it.

    The form is at ``release/?field=shop.Product.stock&key=42``, and names the hold by its token.
    """

    template = "django_counters_holds/panel.html"

    def context(self, request: HttpRequest, counter: OnPage) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Return the holds, the first to expire first; None if there are none."""
        try:
            rows = of(ref_of(counter.owner, counter.key, counter.using), limit=_MOST)
        except InvalidKey:
            # Other code made a row with an invalid key. It can't have holds.
            rows = []
        url = form_url(counter.site, _RELEASE, counter.field, counter.key)
        release_url = url if counter.adjusts else ""
        name = {"name": counter.name, "id": counter.field.replace(".", "-")}
        return {"rows": rows, "release_url": release_url, **name} if rows else None

    def urls(self, page: AdjustingMixin) -> Sequence[URLPattern]:
        """Return the address of the form."""

        @require_POST
        def release_view(request: HttpRequest) -> HttpResponse:
            counter = page.adjustable(request)
            _release(request, counter.subject)
            return HttpResponseRedirect(counter.url or address(page.admin_site, "index"))

        return [path("release/", page.admin_site.admin_view(release_view), name=_RELEASE)]


def _release(request: HttpRequest, counter: Ref) -> None:
    try:
        hold = _hold_of(counter, request.POST.get("token", ""))
        reason = AdjustForm.base_fields["reason"].clean(request.POST.get("reason", ""))
        row = release(
            hold.token,
            reason=reason,
            actor=request.user,
            request_id=request_id_of(request.headers.get("X-Request-ID", "")),
            using=hold.using,
        )
    except forms.ValidationError as error:
        messages.error(request, " ".join([_("Reason:"), *error.messages]))
    except (HoldEnded, HoldMissing):
        messages.warning(request, _("The hold has ended before. Nothing was changed."))
    except CounterError as error:
        messages.error(request, said(error))
    else:
        text = _("Gave back %(quantity)s: adjustment %(number)s.")
        numbers = {"quantity": grouped(row.delta), "number": number_format(row.number)}
        messages.success(request, text % numbers)


def _hold_of(counter: Ref, token: str) -> Hold:
    """Return the hold with a token, if it is one of this counter."""
    if not token or "\0" in token:
        raise HoldMissing(token=token)
    hold = find(token, using=counter.using)
    if (hold.field, hold.key) != (counter.owner, counter.text):
        raise HoldMissing(token=token)
    return hold
