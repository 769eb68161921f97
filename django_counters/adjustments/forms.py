"""The forms of the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminRadioSelect, AdminTextareaWidget, AdminTextInputWidget
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from django_counters.adjustments.models import LEAST_REASON, REASON_LENGTH
from django_counters.types import INT8, Bounds

TO, BY = "to", "by"


class _Int8Field(forms.IntegerField):
    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=INT8[0], max_value=INT8[1], **options)


class AdjustForm(forms.Form):
    """An adjustment and its reason.

    The page adds ``expected`` (the value that it showed), ``last`` (the last adjustment at that
    time) and ``token`` (so that the form adjusts once).
    """

    required_css_class = "required"

    how = forms.ChoiceField(
        label=_("Adjust by"),
        choices=[
            (TO, _("the new value")),
            (BY, _("the change (−5 takes five away)")),  # noqa: RUF001
        ],
        initial=TO,
        widget=AdminRadioSelect(attrs={"class": "radiolist"}),
    )
    number = _Int8Field(
        label=pgettext_lazy("amount", "Number"),
        widget=forms.NumberInput(attrs={"class": "vBigIntegerField", "autocomplete": "off"}),
    )
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_(
            "Stays forever. Write it for people who read it in a year. At least 10 characters."
        ),
        min_length=LEAST_REASON,
        max_length=REASON_LENGTH,
        widget=AdminTextareaWidget(attrs={"rows": 3}),
    )
    case = forms.CharField(
        label=_("Case"),
        help_text=_("A reference, such as the number of a ticket. May be left empty."),
        max_length=100,
        required=False,
        widget=AdminTextInputWidget(),
    )
    allow_below_floor = forms.BooleanField(label=_("Allow a value below the floor"), required=False)
    expected = _Int8Field(widget=forms.HiddenInput())
    last = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput())
    token = forms.UUIDField(widget=forms.HiddenInput())

    def __init__(self, *given: Any, bounds: Bounds, **options: Any) -> None:
        super().__init__(*given, **options)
        if bounds.floor is None:
            del self.fields["allow_below_floor"]

    def clean(self) -> dict[str, Any] | None:
        """Refuse a change by zero."""
        data = super().clean() or self.cleaned_data
        if data.get("how") == BY and data.get("number") == 0:
            self.add_error("number", _("A change by zero changes nothing."))
        return data

    @property
    def asked(self) -> dict[str, Any]:
        """Return the arguments for `adjust`, from a valid form."""
        data = self.cleaned_data
        return {
            data["how"]: data["number"],
            "reason": data["reason"],
            "case": data["case"],
            "allow_below_floor": data.get("allow_below_floor", False),
        }

    def focus(self) -> None:
        """Focus the first field with an error, or the number."""
        wrong = (field.name for field in self.visible_fields() if field.errors)
        first = next(wrong, "number") if self.is_bound else "number"
        self.fields[first].widget.attrs["autofocus"] = True


class ApproveForm(forms.Form):
    """The value that the second person saw, and the last adjustment."""

    expected = _Int8Field(widget=forms.HiddenInput())
    last = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput())


class RejectForm(forms.Form):
    """The reason for a rejection."""

    required_css_class = "required"

    note = forms.CharField(
        label=_("Reason for the rejection"),
        max_length=REASON_LENGTH,
        widget=AdminTextareaWidget(attrs={"rows": 2}),
    )
