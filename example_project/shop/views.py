"""Pages of the shop. A GET of a page counts one visit, a purchase takes from the stock.

A basket holds something of the stock until it is bought, given back, or its time is over.
"""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from django_counters import (
    InsufficientCount,
    InvalidDelta,
    InvalidToken,
    TokenConflict,
    TokenExpired,
)
from django_counters.contrib.holds.errors import HoldEnded, HoldMissing
from example_project.shop import baskets
from example_project.shop.baskets import Basket
from example_project.shop.forms import BuyForm, CheckoutForm
from example_project.shop.models import Product
from example_project.shop.orders import Placed, new_number, place
from example_project.tally import BASKET_SECONDS, REPLAYED_HEADER, SOLD_HEADER
from example_project.visits import count_visit, visitors_today


@require_safe
def products(request: HttpRequest) -> HttpResponse:
    """All products and what is left of them."""
    context = {"products": Product.objects.with_counts()}
    response = render(request, "shop/products.html", context)
    return count_visit(request, response, "shop")


@require_safe
@ensure_csrf_cookie
def product(request: HttpRequest, pk: int) -> HttpResponse:
    """One product, with a form to buy it."""
    found = get_object_or_404(Product.objects.with_counts(), pk=pk)
    context = {"product": found, "form": _form(), "visitors": visitors_today(f"product-{pk}")}
    response = render(request, "shop/product.html", context)
    return count_visit(request, response, f"product-{pk}")


@require_POST
@csrf_protect
def buy(request: HttpRequest, pk: int) -> HttpResponse:
    """Take from the stock and create the order, both or neither; 409 if there is not enough.

    A form that is sent again gets the order of the first time, and a header that says so.
    """
    found, form = get_object_or_404(Product, pk=pk), BuyForm(request.POST)
    if not form.is_valid():
        return _form_again(request, found, form)
    try:
        placed = place(found, **form.cleaned_data)
    except InsufficientCount as refusal:
        return _refused(request, found, refusal)
    except (InvalidToken, TokenExpired):
        return _form_again(request, found, _form(), is_too_old=True)
    return _receipt(request, placed)


@require_POST
@csrf_protect
def fill(request: HttpRequest, pk: int) -> HttpResponse:
    """Put something into a basket and show it; 409 if there is not enough."""
    found, form = get_object_or_404(Product, pk=pk), BuyForm(request.POST)
    if not form.is_valid():
        return _form_again(request, found, form)
    number = form.cleaned_data["number"] or new_number()
    try:
        baskets.put(found, form.cleaned_data["quantity"], number)
    except InsufficientCount as refusal:
        return _refused(request, found, refusal)
    except TokenConflict:
        return _form_again(request, found, _form(), is_too_old=True)
    return redirect("basket", number)


@require_safe
@ensure_csrf_cookie
def basket(request: HttpRequest, number: UUID) -> HttpResponse:
    """What is held for somebody, until when, and the forms to buy it or to give it back."""
    return _basket(request, _found(number), HTTPStatus.OK)


@require_POST
@csrf_protect
def check_out(request: HttpRequest, number: UUID) -> HttpResponse:
    """Order what is in a basket, or a part of it; 409 if it is not held any more."""
    found, form = _found(number), CheckoutForm(request.POST)
    if not form.is_valid():
        return _basket(request, found, HTTPStatus.BAD_REQUEST, form)
    try:
        placed = baskets.check_out(found, **form.cleaned_data)
    except HoldEnded:
        return _basket(request, _found(number), HTTPStatus.CONFLICT)
    except (InvalidDelta, InvalidToken, TokenExpired) as error:
        form.add_error(None, str(error))
        return _basket(request, found, HTTPStatus.BAD_REQUEST, form)
    response = _receipt(request, placed)
    if not placed.replayed:
        response.headers[SOLD_HEADER] = f"{found.product.pk} {placed.order.quantity}"
    return response


@require_POST
@csrf_protect
def leave(request: HttpRequest, number: UUID) -> HttpResponse:
    """Give back what is in a basket, and go back to the product; 409 if it was bought."""
    found = _found(number)
    try:
        found.hold.release()
    except HoldEnded:
        return _basket(request, _found(number), HTTPStatus.CONFLICT)
    return redirect(found.product)


def _found(number: UUID) -> Basket:
    try:
        return baskets.find(number)
    except (HoldMissing, Product.DoesNotExist) as error:
        raise Http404 from error


def _basket(
    request: HttpRequest, found: Basket, status: HTTPStatus, form: CheckoutForm | None = None
) -> HttpResponse:
    form = form or CheckoutForm(initial={"quantity": found.hold.quantity})
    context = {**found._asdict(), "form": form, "seconds": BASKET_SECONDS}
    return render(request, "shop/basket.html", context, status=status)


def _form_again(
    request: HttpRequest, found: Product, form: BuyForm, *, is_too_old: bool = False
) -> HttpResponse:
    context = {"product": found, "form": form, "is_too_old": is_too_old}
    return render(request, "shop/product.html", context, status=HTTPStatus.BAD_REQUEST)


def _refused(request: HttpRequest, found: Product, refusal: InsufficientCount) -> HttpResponse:
    context = {"product": found, "refusal": refusal}
    return render(request, "shop/refused.html", context, status=HTTPStatus.CONFLICT)


def _receipt(request: HttpRequest, placed: Placed) -> HttpResponse:
    response = render(request, "shop/receipt.html", placed._asdict())
    if placed.replayed:
        response.headers[REPLAYED_HEADER] = "true"
    return response


def _form() -> BuyForm:
    return BuyForm(initial={"number": new_number()})
