"""What a buyer sends."""

from __future__ import annotations

from django import forms


class CheckoutForm(forms.Form):
    """How many, and for whom."""

    quantity = forms.IntegerField(min_value=1, max_value=100, initial=1)
    buyer = forms.CharField(
        max_length=80, required=False, label="Your name", empty_value="a visitor"
    )


class BuyForm(CheckoutForm):
    """The same, for a new order. Its number stays the same when the form is sent again."""

    number = forms.UUIDField(required=False, widget=forms.HiddenInput)
