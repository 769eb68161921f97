"""Serializers of a project's own, of models with counter fields."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from rest_framework import serializers

from tests.testapp.models import Account, Article, Post, Product, Small


def serializer_of(of: Any, **extra: Any) -> Any:
    class Shown(serializers.ModelSerializer[Any]):
        class Meta:
            model = of
            fields = "__all__"
            extra_kwargs = extra

    return Shown


@pytest.mark.django_db
@pytest.mark.parametrize("extra", [{}, {"views": {"read_only": False, "min_value": 0}}])
def test_what_a_client_sends_is_not_taken_for_what_is_stored(extra: dict[str, Any]) -> None:
    post = Post.objects.create(views=5)
    serializer = serializer_of(Post, **extra)(post, {"views": 900, "title": "x"}, partial=True)
    assert serializer.is_valid(), serializer.errors
    serializer.save()
    assert serializer.data == {"id": post.pk, "title": "x", "views": 5, "likes": 0}
    post.refresh_from_db()
    assert (post.title, post.views) == ("x", 5)


@pytest.mark.django_db
def test_an_amount_is_a_text() -> None:
    account = Account.objects.create(**{"balance": Decimal("12.5")})
    serializer = serializer_of(Account)(account, {"balance": "900", "name": "x"}, partial=True)
    assert serializer.is_valid(), serializer.errors
    serializer.save()
    assert (serializer.data["balance"], serializer.data["points"]) == ("12.50", "0.000")
    assert Account.objects.get().balance == Decimal("12.50")


@pytest.mark.parametrize(("model", "names"), [
    (Account, {"balance", "bonus", "points", "energy"}),
    (Product, {"stock"}), (Small, {"hits"}), (Article, {"reads", "claps", "shares"}),
])  # fmt: skip
def test_every_counter_field_is_read_only(model: Any, names: set[str]) -> None:
    fields = serializer_of(model)().fields
    assert {name for name, field in fields.items() if field.read_only} == {"id", *names}
