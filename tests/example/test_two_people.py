"""Nobody adjusts a counter of the example by more than 100 alone: the README says so."""

from __future__ import annotations

from datetime import UTC

import pytest

from django_counters import ApprovalRequired
from django_counters.fields import CounterField
from django_counters.models import Counter, CounterAdjustment
from example_project.blog.models import Post
from example_project.corrections import noting
from example_project.countries import Cell
from example_project.settings import COUNTERS
from example_project.shop.models import Product
from example_project.tally import Tally

FIELDS = [
    (model, field.name)
    for model in (Post, Product)
    for field in model._meta.fields
    # Nobody adjusts how many people like something.
    if isinstance(field, CounterField) and not (field.measure and field.measure.counts_rows)
]


@pytest.mark.django_db
@pytest.mark.parametrize("namespace", [*COUNTERS, "undeclared"])
def test_a_named_counter_needs_two_above_100(namespace: str) -> None:
    Counter.objects.adjust(f"{namespace}:a", by=100, reason="A test", actor="clerk")
    with pytest.raises(ApprovalRequired):
        Counter.objects.adjust(f"{namespace}:a", by=101, reason="A test", actor="clerk")
    assert CounterAdjustment.objects.get().delta == 100


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "name"), FIELDS)
def test_a_counter_of_a_record_needs_two_above_100(
    model: type[Post] | type[Product], name: str
) -> None:
    record = model.objects.create(**({"price": 1} if model is Product else {}))
    getattr(record, name).adjust(by=100, reason="A test", actor="clerk")
    with pytest.raises(ApprovalRequired):
        getattr(record, name).adjust(by=101, reason="A test", actor="clerk")
    assert CounterAdjustment.objects.get().delta == 100


@pytest.mark.django_db(transaction=True)
def test_what_is_adjusted_is_expected_of_its_day_too() -> None:
    """The comparison by day and by week is made of cells."""
    post, tally = Post.objects.create(slug="a"), Tally()
    with noting(tally):
        row = post.views.adjust(by=200, reason="A test", actor="clerk", approver="boss")
    day = row.created_at.astimezone(UTC).date().isoformat()
    assert tally.sums() == {
        f"blog.Post.views:{post.pk}": 200,
        Cell(post.pk, "", day).name(): 200,
    }
