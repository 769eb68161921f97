"""The rows of a kind have the columns that its app declares, with a period or without one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from string import ascii_lowercase
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from django_counters.contrib.buffers.pages import entry_in, text_of
from django_counters.measure import KEY, NUMBER, SHARD, Kind, RowColumn
from django_counters.redis.keys import cell_field, cell_in, set_in
from django_counters.stores.sql.cells import SqlCells
from django_counters.stores.sql.dialects.postgresql.functions import _adding
from django_counters.stores.sql.session import Session
from django_counters.types import Cell, Delta, Effect
from tests.extension.test_failing import second

LANGUAGE = RowColumn("l", "language", "text")
WEEKDAY = RowColumn("w", "weekday", "smallint")
SINCE = RowColumn("s", "since", "timestamptz")
MOMENT = datetime(2026, 5, 1, 10, tzinfo=UTC)


def kind(*columns: RowColumn, mark: str = "n") -> Kind:
    return Kind("visit", "visits", "visits_visit", columns, mark=mark, order=3000)


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (kind(KEY, WEEKDAY, NUMBER), (6,)),
        (kind(KEY, SINCE, SHARD, NUMBER), (MOMENT,)),
        (kind(KEY, WEEKDAY, LANGUAGE, SINCE, NUMBER), (6, "de.r|x", MOMENT)),
        (kind(LANGUAGE, KEY, NUMBER), ("de",)),
        (kind(LANGUAGE, KEY, NUMBER, mark="r"), ("",)),
        (kind(KEY, NUMBER), ()),
    ],
    ids=["number", "moment", "all", "text", "empty", "none"],
)
def test_they_pass_through_redis_and_files(
    declared: Kind, values: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind without numbers isn't mistaken for the number of actors or for registers."""
    both = {**apps.app_configs, "second": second(kinds=[declared])}
    monkeypatch.setattr(apps, "app_configs", both)
    cell = Cell(declared, values)
    field = cell_field(cell, "hits:a.b")
    assert (set_in(field), cell_in(field)) == (None, ("hits:a.b", cell))
    assert entry_in(text_of(("hits:a", (cell,)))) == ("hits:a", (cell,))


@pytest.mark.postgresql
@pytest.mark.django_db
@pytest.mark.parametrize("letter", sorted({*ascii_lowercase} - {*"cdknvw"}))
def test_a_function_takes_each_letter(letter: str) -> None:
    declared = replace(
        kind(KEY, WEEKDAY, RowColumn(letter, "hour", "smallint"), NUMBER), varied="w"
    )
    text = "key text, weekday smallint, hour smallint, value bigint"
    effects = tuple(Effect(Cell(declared, (weekday, 7)), 3) for weekday in (1, 2))
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE visits_visit ({text}, PRIMARY KEY (key, weekday, hour))")
        cursor.execute(_adding(declared))
        for given in (effects, effects[:1]):
            call = SqlCells(Session("default"))._sql.alike({declared: rows(given)})
            assert call is not None
            cursor.execute("SELECT django_counters_add_visit(5, 0, %s, %s, %s, %s)", call)
        cursor.execute("SELECT * FROM visits_visit ORDER BY weekday")
        assert cursor.fetchall() == [("a", 1, 7, 6), ("a", 2, 7, 3)]


def rows(effects: tuple[Effect, ...]) -> list[tuple[Any, ...]]:
    return [cell.kind.pick((*cell.values, "a", 0, by)) for cell, by in effects]


@pytest.mark.postgresql
@pytest.mark.django_db
def test_a_shard_is_no_other_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger adds to a shard of its own, and only if the kind has shards."""
    declared = kind(KEY, RowColumn("n", "weekday", "smallint"), NUMBER)
    both = {**apps.app_configs, "second": second(kinds=[declared])}
    monkeypatch.setattr(apps, "app_configs", both)
    delta = Delta("a", 3, effects=(Effect(Cell(declared, (6,)), 3),))
    cells = SqlCells(Session("default"))
    with connection.cursor() as cursor:
        text = "key text, weekday smallint, value bigint, PRIMARY KEY (key, weekday)"
        cursor.execute(f"CREATE TABLE visits_visit ({text})")
        cells.add([delta], apart=True)
        cells.run("SELECT 5", (), ("v",), [delta])
        cursor.execute("SELECT * FROM visits_visit")
        assert cursor.fetchall() == [("a", 6, 6)]
