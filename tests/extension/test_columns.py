"""The rows of a kind have the columns that its app declares, with a period or without one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.apps import apps

from django_counters.contrib.buffers.pages import entry_in, text_of
from django_counters.measure import KEY, NUMBER, SHARD, Kind, RowColumn
from django_counters.redis.keys import cell_field, cell_in, set_in
from django_counters.types import Cell
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
