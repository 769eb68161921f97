"""A column of money that becomes a counter keeps its amounts, or the migration is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError
from django.db import connection, migrations, models
from django.db.migrations.state import ProjectState
from django.db.models import F
from django.db.models.signals import pre_migrate

from django_counters.decimals import DecimalCounterField
from django_counters.fields import CounterField

pytestmark = pytest.mark.django_db(transaction=True)
MONEY = models.DecimalField(max_digits=9, decimal_places=2, null=True)
WHOLE = models.DecimalField(max_digits=20, decimal_places=0, null=True)
FLOAT = models.FloatField(null=True)
BIGINT = models.BigIntegerField(default=0)
CENTS = DecimalCounterField(places=2)


class Table:
    """A table of a project, which real operations migrate."""

    def __init__(self) -> None:
        self.state = ProjectState()

    def migrate(self, *operations: Any, backwards: bool = False) -> Any:
        """Run a migration as ``migrate`` does; return the model."""
        migration: Any = migrations.Migration("0002_counters", "shop")
        migration.operations = list(operations)
        config = apps.get_app_config("django_counters")
        plan = [(migration, backwards)]
        pre_migrate.send(config, app_config=config, using="default", apps=apps, plan=plan)
        before = self.state.clone()
        try:
            with connection.schema_editor() as editor:
                if backwards:
                    migration.unapply(before, editor)
                else:
                    self.state = migration.apply(before, editor)
        finally:
            connection.close_if_unusable_or_obsolete()
        return self.state.apps.get_model("shop", "Purse")


@pytest.fixture
def table() -> Iterator[Table]:
    yield Table()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS shop_purse")


def create(field: models.Field[Any, Any]) -> migrations.CreateModel:
    fields = [("id", models.BigAutoField(primary_key=True)), ("balance", field)]
    return migrations.CreateModel("Purse", fields)


def alter(field: models.Field[Any, Any], name: str = "balance") -> migrations.AlterField:
    return migrations.AlterField("Purse", name, field)


def convert(factor: int) -> migrations.RunPython:
    def forwards(apps: Any, _editor: Any) -> None:
        apps.get_model("shop", "Purse").objects.update(balance=F("balance") * factor)

    def backwards(apps: Any, _editor: Any) -> None:
        apps.get_model("shop", "Purse").objects.update(balance=F("balance") * (Decimal(1) / factor))

    return migrations.RunPython(forwards, backwards)


@pytest.mark.parametrize("kind", [MONEY, FLOAT], ids=["decimal", "float"])
@pytest.mark.parametrize("counter", [CENTS, CounterField()], ids=["amounts", "integers"])
@pytest.mark.parametrize("way", ["altered", "renamed", "database alone"])
def test_amounts_that_would_be_rounded(table: Table, kind: Any, counter: Any, way: str) -> None:
    purses = table.migrate(create(kind)).objects
    purses.create(balance=Decimal("12.50"))
    operations: dict[str, list[Any]] = {
        "altered": [alter(counter)],
        "renamed": [
            migrations.RenameField("Purse", "balance", "money"),
            alter(counter, "money"),
        ],
        "database alone": [
            migrations.SeparateDatabaseAndState(database_operations=[alter(counter)])
        ],
    }
    with pytest.raises(CommandError, match="BigIntegerField first"):
        table.migrate(*operations[way])
    if connection.features.can_rollback_ddl:
        assert purses.get().balance == Decimal("12.50")


@pytest.mark.parametrize(
    ("kind", "counter", "numbers"),
    [
        (MONEY, CENTS, []),
        (MONEY, CENTS, [0]),
        (WHOLE, CounterField(), [12, 0]),
        (MONEY, CounterField(), [12]),
        (FLOAT, CounterField(), [-12]),
        (BIGINT, CENTS, [1250]),
    ],
)
def test_columns_whose_numbers_stay(
    table: Table, kind: Any, counter: Any, numbers: list[int]
) -> None:
    purses = table.migrate(create(kind)).objects
    for number in numbers:
        purses.create(balance=number)
    altered = table.migrate(alter(counter)).objects
    units = sum(int(one.balance * 100 ** (counter is CENTS)) for one in altered.all())
    assert units == sum(numbers)


def test_a_column_of_nothing_but_null(table: Table) -> None:
    table.migrate(create(MONEY)).objects.create(balance=None)
    assert table.migrate(alter(CENTS)).objects.get().balance == 0


def test_amounts_of_whole_numbers_are_no_units(table: Table) -> None:
    table.migrate(create(WHOLE)).objects.create(balance=12)
    with pytest.raises(CommandError):
        table.migrate(alter(CENTS))


def test_amounts_that_are_converted_first(table: Table) -> None:
    table.migrate(create(MONEY)).objects.create(balance=Decimal("12.50"))
    operations = [convert(100), alter(BIGINT), alter(CENTS)]
    before = table.state
    assert table.migrate(*operations).objects.get().balance == Decimal("12.50")
    table.state = before
    assert table.migrate(*operations, backwards=True).objects.get().balance == Decimal("12.50")


def test_units_that_would_become_amounts(table: Table) -> None:
    """1250 units are 12.50, not 1250.00."""
    table.migrate(create(MONEY))
    before, adopted = table.state, alter(CENTS)
    table.migrate(adopted).objects.create(balance=Decimal("12.50"))
    with pytest.raises(CommandError):
        table.migrate(alter(MONEY))
    table.state = before
    with pytest.raises(CommandError):
        table.migrate(adopted, backwards=True)


@pytest.mark.postgresql
@pytest.mark.parametrize("apart", [True, False], ids=["state apart", "one after the other"])
def test_a_column_that_sql_converts(table: Table, apart: bool) -> None:
    table.migrate(create(MONEY)).objects.create(balance=Decimal("12.50"))
    sql = migrations.RunSQL(
        "ALTER TABLE shop_purse ALTER balance TYPE bigint USING (balance * 100)::bigint",
        "ALTER TABLE shop_purse ALTER balance TYPE numeric(9, 2) USING balance / 100.0",
    )
    operations: list[Any] = [sql, alter(CENTS)]
    if apart:
        operations = [migrations.SeparateDatabaseAndState([sql], [alter(CENTS)])]
    assert table.migrate(*operations).objects.get().balance == Decimal("12.50")
