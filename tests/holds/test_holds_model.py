"""Holds against a model of them: random calls, and what has to be so after each."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from django_counters.contrib import holds
from django_counters.contrib.holds.errors import HoldEnded
from django_counters.contrib.holds.holding import Hold
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.holds.upkeep import expire_holds
from django_counters.errors import InsufficientCount, InvalidDelta
from tests.holds.conftest import Stock, pass_time, sums

pytestmark = [pytest.mark.rare, pytest.mark.django_db]


class Model:
    """What the rows and the counter should say."""

    def __init__(self, available: int) -> None:
        self.available = available
        # By token: quantity, sold, state, minutes that are left.
        self.rows: dict[str, list[int | str]] = {}

    def running(self, token: str) -> bool:
        row = self.rows[token]
        return row[2] == "held" and int(row[3]) > 0

    def expire(self) -> int:
        over = [row for row in self.rows.values() if row[2] == "held" and int(row[3]) <= 0]
        for row in over:
            row[2] = "expired"
            self.available += int(row[0])
        return len(over)

    def hold(self, token: str, quantity: int, minutes: int) -> bool:
        if token in self.rows:
            return True
        if self.available < quantity:
            self.expire()
        if self.available < quantity:
            return False
        self.available -= quantity
        self.rows[token] = [quantity, 0, "held", minutes]
        return True

    def end(self, token: str, state: str, sold: int) -> None:
        row = self.rows[token]
        self.available += int(row[0]) - sold
        row[1:3] = [sold, state]


def _allowed(work: Callable[[], object]) -> bool:
    try:
        work()
    except (HoldEnded, InsufficientCount, InvalidDelta):
        return False
    return True


@pytest.mark.parametrize("seed", range(3))
def test_random_calls(stock: Stock, seed: int) -> None:
    chance, model = random.Random(seed), Model(10)
    for turn in range(60):
        _step(chance, model, stock, turn)
        rows = {one.token: one for one in CounterHold.objects.all()}
        said = {
            token: [row.quantity, row.sold, row.get_state_display(), model.rows[token][3]]
            for token, row in rows.items()
        }
        due = {t for t, row in model.rows.items() if row[2] == "held" and int(row[3]) <= 0}
        # Whether overdue ones were given back early does not matter: the sum does.
        back = sum(int(model.rows[t][0]) for t in due if said[t][2] == "expired")
        for token in due:
            said[token][2] = "held"
        assert said == model.rows
        assert stock.value() == model.available + back
        found = stock.stocktake()
        assert (found.available, found.total) == (stock.value(), 10)
        assert (found.held, found.sold) == sums()


def _step(chance: random.Random, model: Model, stock: Stock, turn: int) -> None:
    tokens, way = sorted(model.rows), chance.randrange(7)
    if way < 2 or not tokens:
        _hold(model, stock, chance.choice([*tokens, f"new {turn}", f"more {turn}"]), chance)
    elif way < 6:
        _WAYS[way](model, chance.choice(tokens), chance)
    elif chance.random() < 0.5:
        pass_time(10)
        for each in model.rows.values():
            each[3] = int(each[3]) - 10
    else:
        expire_holds()
        model.expire()


def _hold(model: Model, stock: Stock, token: str, chance: random.Random) -> None:
    known = model.rows.get(token)
    quantity = int(known[0]) if known else chance.randint(1, 5)
    there = model.hold(token, quantity, 20)
    assert _allowed(lambda: stock.hold(quantity, token=token, minutes=20)) is there


def _commit(model: Model, token: str, chance: random.Random, part: int | None = None) -> None:
    row, wanted = model.rows[token], part or int(model.rows[token][0])
    runs = model.running(token) and wanted <= int(row[0])
    again = row[1:3] == [wanted, "committed"]
    assert _allowed(lambda: _found(token).commit(quantity=part)) is (runs or again)
    if runs:
        model.end(token, "committed", wanted)


def _commit_some(model: Model, token: str, chance: random.Random) -> None:
    _commit(model, token, chance, chance.randint(1, 5))


def _release(model: Model, token: str, chance: random.Random) -> None:
    row = model.rows[token]
    assert _allowed(_found(token).release) is (row[2] != "committed")
    if row[2] == "held":
        # Or it was given back before, when somebody else needed it.
        model.end(token, _found(token).state, 0)


def _extend(model: Model, token: str, chance: random.Random) -> None:
    assert _allowed(lambda: _found(token).extend(minutes=20)) is model.running(token)
    if model.running(token):
        model.rows[token][3] = max(int(model.rows[token][3]), 20)


_WAYS = {2: _commit, 3: _commit_some, 4: _release, 5: _extend}


def _found(token: str) -> Hold:
    return holds.find(token)
