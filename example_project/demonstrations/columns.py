"""Ways that lose numbers in a column: read-add-write, a stale save, check-then-decrement."""

from __future__ import annotations

from django.db.models import F

from django_counters import InsufficientCount
from example_project.demonstrations.actors import Work, actors, in_turn
from example_project.demonstrations.outcome import Demonstration, Outcome
from example_project.demonstrations.tables import Page
from example_project.shop.models import Product


def _product(stock: int = 0) -> int:
    made = Product.objects.create(name="Tea", slug="tea", price=1, stock=stock)
    return int(made.pk)


def _counted(pk: int) -> int:
    value = int(Product.objects.get(pk=pk).stock)
    Product.objects.filter(pk=pk).delete()
    return value


def _visit(pk: int) -> Work:
    page = Page.objects.get(pk=pk)
    yield
    page.views = page.views + 1
    page.save()


def _read_add_write() -> Outcome:
    page = Page.objects.create()
    in_turn(_visit(page.pk), _visit(page.pk))
    page.refresh_from_db()
    return Outcome(2, page.views)


def _visit_exactly(pk: int) -> Work:
    product = Product.objects.get(pk=pk)
    yield
    product.stock.increment()


def _increment() -> Outcome:
    pk = _product()
    in_turn(_visit_exactly(pk), _visit_exactly(pk))
    return Outcome(2, _counted(pk))


def _rename(pk: int) -> Work:
    page = Page.objects.get(pk=pk)
    yield
    page.title = "new"
    page.save()  # writes page.views, too


def _stale_save() -> Outcome:
    page = Page.objects.create()
    with actors(_rename(page.pk)) as (editor,):
        editor.goes_on()
        Page.objects.filter(pk=page.pk).update(views=F("views") + 1)
        editor.ends()
    page.refresh_from_db()
    return Outcome(1, page.views)


def _rename_product(pk: int) -> Work:
    product = Product.objects.get(pk=pk)
    yield
    product.name = "Green tea"
    product.save()


def _save() -> Outcome:
    pk = _product()
    with actors(_rename_product(pk)) as (editor,):
        editor.goes_on()
        Product.objects.get(pk=pk).stock.increment()
        editor.ends()
    return Outcome(1, _counted(pk))


def _sell(pk: int, sold: list[int]) -> Work:
    page = Page.objects.get(pk=pk)
    if page.stock >= 1:
        yield
        Page.objects.filter(pk=pk).update(stock=F("stock") - 1)
        sold.append(pk)


def _check_then_decrement() -> Outcome:
    page, sold = Page.objects.create(stock=1), list[int]()
    in_turn(_sell(page.pk, sold), _sell(page.pk, sold))
    return Outcome(1, len(sold))


def _sell_exactly(pk: int, sold: list[int]) -> Work:
    product = Product.objects.get(pk=pk)
    yield
    try:
        product.stock.decrement()
    except InsufficientCount:
        return  # the buyer is told
    sold.append(pk)


def _decrement() -> Outcome:
    pk, sold = _product(stock=1), list[int]()
    in_turn(_sell_exactly(pk, sold), _sell_exactly(pk, sold))
    Product.objects.filter(pk=pk).delete()
    return Outcome(1, len(sold))


WAYS = {
    "read-add-write": Demonstration(_read_add_write, _increment),
    "stale-save": Demonstration(_stale_save, _save),
    "check-then-decrement": Demonstration(_check_then_decrement, _decrement),
}
