"""Pages of the shop. A GET of a page counts one visit, a purchase takes from the stock."""

from __future__ import annotations

from http import HTTPStatus

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from django_counters import InsufficientCount
from example_project.shop.forms import BuyForm
from example_project.shop.models import Order, Product
from example_project.visits import count_visit


@require_safe
def products(request: HttpRequest) -> HttpResponse:
    """All products and what is left of them."""
    context = {"products": Product.objects.with_counts()}
    response = render(request, "shop/products.html", context)
    count_visit(request, "shop")
    return response


@require_safe
@ensure_csrf_cookie
def product(request: HttpRequest, pk: int) -> HttpResponse:
    """One product, with a form to buy it."""
    found = get_object_or_404(Product.objects.with_counts(), pk=pk)
    response = render(request, "shop/product.html", {"product": found, "form": BuyForm()})
    count_visit(request, f"product-{pk}")
    return response


@require_POST
@csrf_protect
def buy(request: HttpRequest, pk: int) -> HttpResponse:
    """Take from the stock and create the order, both or neither; 409 if there is not enough."""
    found = get_object_or_404(Product, pk=pk)
    form = BuyForm(request.POST)
    if not form.is_valid():
        context = {"product": found, "form": form}
        return render(request, "shop/product.html", context, status=HTTPStatus.BAD_REQUEST)
    try:
        order = purchase(found, form.cleaned_data["quantity"], form.cleaned_data["buyer"])
    except InsufficientCount as refusal:
        context = {"product": found, "refusal": refusal}
        return render(request, "shop/refused.html", context, status=HTTPStatus.CONFLICT)
    return render(request, "shop/receipt.html", {"product": found, "order": order})


def purchase(product: Product, quantity: int, buyer: str) -> Order:
    """Create an order and take its quantity from the stock, in one transaction.

    Raises:
        InsufficientCount: there is less in stock; nothing was ordered and nothing was taken.
    """
    with transaction.atomic():
        order = Order.objects.create(product=product, quantity=quantity, buyer=buyer)
        # Last, because the other buyers of this product wait from here to the commit.
        product.stock.decrement(quantity)
    return order
