"""What a buyer sends."""

from __future__ import annotations

from django import forms


class BuyForm(forms.Form):
    """How many, and for whom. The number stays the same when the form is sent again."""

    number = forms.UUIDField(required=False, widget=forms.HiddenInput)

    quantity = forms.IntegerField(min_value=1, max_value=100, initial=1)
    buyer = forms.CharField(
        max_length=80, required=False, label="Your name", empty_value="a visitor"
    )
