"""To the expressions of Django a counter is an integer field of the size of its column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import FieldError
from django.db.models import Case, F, Max, Q, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, Greatest

from tests.testapp.models import Mixed

pytestmark = pytest.mark.django_db

FEW = Q(pk__gt=0)
EXPRESSIONS: dict[str, Callable[[str, str], Any]] = {
    "a case of a sum": lambda a, _: Case(When(FEW, then=F(a) + 1), default=F(a)),
    "a case of a number": lambda a, _: Case(When(FEW, then=Value(0)), default=F(a)),
    "the greatest of a number": lambda a, _: Greatest(Value(0), F(a)),
    "the greatest of two": lambda a, b: Greatest(F(a), F(b)),
    "the first of two": lambda a, b: Coalesce(F(a), F(b)),
    "a case of two": lambda a, b: Case(When(FEW, then=F(a)), default=F(b)),
    "a sum of two": lambda a, b: F(a) * 2 - F(b),
    "a query": lambda a, _: Coalesce(Value(0), Subquery(Mixed.objects.values(a)[:1])),
    "a query and a column": lambda a, b: Greatest(F(a), Subquery(Mixed.objects.values(b)[:1])),
    "an aggregate": lambda a, b: Greatest(Max(a), Sum(b)),
}
# Two of Django's own fields, and two columns of the same sizes, counters among them.
PAIRS = [
    ("big", "big_too", "counted", "big"),
    ("big", "big_too", "big", "counted"),
    ("big", "big_too", "counted", "cached"),
    ("big", "big_too", "cached", "counted"),
    ("small", "small_too", "small_counted", "small"),
    ("small", "small_too", "small", "small_counted"),
    ("big", "small", "counted", "small_counted"),
    ("small", "big", "small_counted", "counted"),
]


def outcome(expression: Any) -> Any:
    """What the rows have, or that Django refuses it."""
    try:
        return list(Mixed.objects.annotate(x=expression).values_list("x", flat=True))
    except FieldError as error:
        return str(error)[:30]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_has_the_outcome_that_plain_fields_have(name: str) -> None:
    numbers = dict.fromkeys(("big", "big_too", "counted", "cached"), 7)
    Mixed.objects.create(**numbers, small=7, small_too=7, small_counted=7)
    make = EXPRESSIONS[name]
    for plain, plain_too, one, other in PAIRS:
        assert outcome(make(one, other)) == outcome(make(plain, plain_too)), (one, other)
