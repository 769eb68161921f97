"""Many rows at once: as fast as Django's own fields, and what was counted stays."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.migrations.operations import AddField, CreateModel
from django.db.migrations.state import ProjectState
from django.db.models import BigIntegerField, Case, F, Value, When
from django.test.utils import CaptureQueriesContext

from django_counters import CounterField
from django_counters.models import Counter
from tests.fields.test_schema import apply
from tests.testapp.models import Mixed, Post

pytestmark = pytest.mark.django_db


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("model", "name", "key"), [(Mixed, "counted", "pk"), (Counter, "value", "key")]
)
def test_bulk_create_gives_postgresql_one_array_a_column(model: Any, name: str, key: str) -> None:
    with CaptureQueriesContext(connection) as captured:
        model._base_manager.bulk_create([model(**{key: 1, name: 5}), model(**{key: 2})])
    assert "UNNEST" in captured[-1]["sql"]
    assert list(model.objects.order_by(key).values_list(name, flat=True)) == [5, 0]


@pytest.mark.parametrize("assigned", [500, "500", 500.0, None])
def test_bulk_update_keeps_what_was_counted(assigned: Any) -> None:
    stale, other = Post.objects.create(views=1), Post.objects.create(views=2)
    Post.objects.get(pk=stale.pk).views.increment(10)
    if assigned is not None:
        stale.views = assigned
    other.views = F("views") + 5
    Post.objects.bulk_update([stale, other], ["views", "title"])
    assert list(Post.objects.order_by("pk").values_list("views", flat=True)) == [11, 7]


def test_what_an_expression_of_ones_own_says_is_written() -> None:
    one, two = Post.objects.create(views=1), Post.objects.create(views=2)
    five = Case(When(pk=one.pk, then=5), default="views", output_field=BigIntegerField())
    Post.objects.update(views=five)
    Post.objects.filter(pk=two.pk).update(views=Value(two.views, Post._meta.get_field("views")))
    assert list(Post.objects.order_by("pk").values_list("views", flat=True)) == [5, 2]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("options", "starts"), [({}, None), ({"db_default": 0}, 0)])
def test_code_that_does_not_know_the_column_inserts_where_the_database_has_a_default(
    options: dict[str, Any], starts: int | None
) -> None:
    state = ProjectState()
    operation = CreateModel("Rolling", [("id", models.BigAutoField(primary_key=True))])
    state = apply(state, operation)
    old = state.apps.get_model("testapp", "Rolling")
    try:
        state = apply(state, AddField("Rolling", "hits", CounterField(**options)))
        new = state.apps.get_model("testapp", "Rolling")
        if starts is None:
            with pytest.raises(IntegrityError), transaction.atomic():
                old.objects.create()
        else:
            row = new.objects.get(pk=old.objects.create().pk)
            assert row.hits == starts
            assert row.hits.increment() == starts + 1
            made = new.objects.create()
            assert made.hits.increment() == 1
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE testapp_rolling")
