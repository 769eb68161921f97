"""The bounds of a field are asked before a new row is inserted; an old one keeps what it has."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError
from django.forms import modelform_factory
from rest_framework.utils.field_mapping import get_field_kwargs

from django_counters import CounterField
from tests.testapp.models import Post, Product

OUTSIDE = [(-5, "greater than or equal to 0"), (9999, "less than or equal to 1000")]


@pytest.mark.parametrize(("stock", "told"), OUTSIDE)
def test_a_new_row_outside_its_bounds_is_no_error_of_the_server(stock: int, told: str) -> None:
    product = Product(name="a", stock=stock)
    with pytest.raises(ValidationError, match=told):
        product.full_clean()
    form = modelform_factory(Product, fields=["name", "stock"])({"name": "a"}, instance=product)
    assert told in str(form.errors["stock"])
    given = get_field_kwargs("stock", Product._meta.get_field("stock"))
    assert (given["min_value"], given["max_value"]) == (0, 1000)


@pytest.mark.django_db
def test_a_row_that_is_outside_can_be_changed_in_its_other_columns() -> None:
    product = Product.objects.create(name="a")
    Product.objects.update(stock=-5)
    product.refresh_from_db()
    product.full_clean()
    form = modelform_factory(Product, fields=["name", "stock"])({"name": "b"}, instance=product)
    assert form.is_valid(), form.errors
    form.save()
    assert Product.objects.values_list("name", "stock").get() == ("b", -5)


def test_a_field_without_bounds_has_the_range_of_its_column() -> None:
    Post(views=-5).full_clean()
    with pytest.raises(ValidationError):
        Post(views=2**63).full_clean()
    assert "validators" not in CounterField(floor=0, ceiling=5).deconstruct()[3]
