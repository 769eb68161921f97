"""Pages of the shop. A GET of a page counts one visit, a purchase takes from the stock."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from django_counters import InsufficientCount, InvalidToken, TokenExpired
from example_project.shop.forms import BuyForm
from example_project.shop.models import Product
from example_project.shop.orders import new_number, place
from example_project.tally import REPLAYED_HEADER
from example_project.visits import count_visit


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
    response = render(request, "shop/product.html", {"product": found, "form": _form()})
    return count_visit(request, response, f"product-{pk}")


@require_POST
@csrf_protect
def buy(request: HttpRequest, pk: int) -> HttpResponse:
    """Take from the stock and create the order, both or neither; 409 if there is not enough.

    A form that is sent again gets the order of the first time, and a header that says so.
    """
    found = get_object_or_404(Product, pk=pk)
    form = BuyForm(request.POST)
    if not form.is_valid():
        context = {"product": found, "form": form}
        return render(request, "shop/product.html", context, status=HTTPStatus.BAD_REQUEST)
    try:
        placed = place(found, **form.cleaned_data)
    except InsufficientCount as refusal:
        context = {"product": found, "refusal": refusal}
        return render(request, "shop/refused.html", context, status=HTTPStatus.CONFLICT)
    except (InvalidToken, TokenExpired):
        context = {"product": found, "form": _form(), "is_too_old": True}
        return render(request, "shop/product.html", context, status=HTTPStatus.BAD_REQUEST)
    response = render(request, "shop/receipt.html", placed._asdict())
    if placed.replayed:
        response.headers[REPLAYED_HEADER] = "true"
    return response


def _form() -> BuyForm:
    return BuyForm(initial={"number": new_number()})
