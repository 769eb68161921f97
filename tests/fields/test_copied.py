"""Packages that keep the history of a model copy its fields: a copied field counts nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations.writer import MigrationWriter
from django.test.utils import isolate_apps

from django_counters.contrib import likes
from django_counters.contrib.likes.models import CounterActor
from django_counters.fields import CounterField, counter_fields
from tests.testapp.models import Account, Note, Product, Small, Song

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=[copy.copy, copy.deepcopy])
def history_of(request: Any) -> Iterator[Callable[[type[models.Model]], Any]]:
    """Make a model with a row for each save of another one."""
    made: list[type[models.Model]] = []

    def history(model: type[models.Model]) -> type[models.Model]:
        # What was asked of the original before is kept on it, and copied.
        for field in counter_fields(model):
            assert (field.table, field.measure, field.recipe, field.validators) is not None
        body = {field.name: request.param(field) for field in counter_fields(model)}
        meta = type("Meta", (), {"app_label": "testapp", "db_table": f"history_{model.__name__}"})
        own = {"history_id": models.AutoField(primary_key=True), "id": models.BigIntegerField()}
        made.append(
            type(
                f"History{model.__name__}",
                (models.Model,),
                {**body, **own, "Meta": meta, "__module__": __name__},
            )
        )
        with connection.schema_editor() as editor:
            editor.create_model(made[-1])
        return made[-1]

    with isolate_apps("tests.testapp"):
        yield history
    for model in made:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


def _noted(history: Any, record: Any) -> Any:
    names = ["id", *(field.attname for field in counter_fields(type(record)))]
    return history.objects.create(**{name: getattr(record, name) for name in names})


def test_the_history_of_a_record_that_counts_actors(history_of: Any) -> None:
    history = history_of(Note)
    note = Note.objects.create()
    for person in ("ann", "bob"):
        note.likes.increment(who=person)
        note.stars.increment(who=person)
    row = _noted(history, note)
    assert row.likes == 2
    row.save()
    row.likes = 7
    row.save()
    row.refresh_from_db()
    assert (type(row.likes), row.likes, note.likes.value()) == (int, 7, 2)
    # Its key may be that of any record.
    history.objects.filter(pk=row.pk).update(history_id=note.pk)
    history.objects.get(pk=note.pk).delete()
    assert likes.has(note.likes, "ann")
    assert (CounterActor.objects.count(), note.stars.value()) == (4, 2)


def test_the_history_of_a_record_outside_its_bounds(history_of: Any) -> None:
    history = history_of(Product)
    product = Product.objects.create(name="tea")
    Product.objects.update(stock=-3)
    product.refresh_from_db()
    row = _noted(history, product)
    row.full_clean()
    assert history.objects.get().stock == -3


def test_the_history_of_amounts(history_of: Any) -> None:
    history = history_of(Account)
    account: Any = Account.objects.create(balance=Decimal("12.50"))
    row = _noted(history, account)
    row.refresh_from_db()
    assert (row.balance, type(row.balance)) == (Decimal("12.50"), Decimal)
    row.balance = Decimal("13.75")
    row.save()
    row = history.objects.get(balance__gt=Decimal("13.70"))
    assert (row.balance, type(row.balance)) == (Decimal("13.75"), Decimal)
    assert history.objects.aggregate(models.Sum("balance")) == {"balance__sum": Decimal("13.75")}


@pytest.mark.parametrize("model", [Account, Note, Product, Small, Song])
def test_it_is_a_plain_field_with_the_same_column(history_of: Any, model: Any) -> None:
    history = history_of(model)
    assert counter_fields(history) == []
    originals = counter_fields(model)
    for original in originals:
        copied = history._meta.get_field(original.name)
        assert copied.db_type(connection) == original.db_type(connection)
        assert isinstance(original, CounterField)
        text, imports = MigrationWriter.serialize(copied)
        namespace: dict[str, Any] = {}
        exec("\n".join(imports), namespace)
        again = eval(text, namespace)
        assert again.deconstruct()[1:] == copied.deconstruct()[1:]
        leftovers = {"strategy", "bounds", "options", "measure", "recipe", "table", "approve_above"}
        assert leftovers.isdisjoint(vars(copied))
    assert history.check() == []
