"""Buyers who hold before they buy, expirers and readers; some buyers are killed on the way."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from contextlib import suppress
from typing import Any

from django.db import connection, connections

from django_counters.contrib import holds
from django_counters.contrib.holds.errors import HoldEnded
from django_counters.contrib.holds.holding import Hold, Stock
from django_counters.contrib.holds.upkeep import expire_holds
from django_counters.errors import InsufficientCount, RetryTransaction
from django_counters.testing import override_counters
from tests.concurrency.crowd import PATIENCE, processes
from tests.testapp.models import Product

BUYERS, EXPIRERS, READERS = 8, 2, 1
# Of whoever is killed or goes away the hold is over soon.
MINUTES = 0.5 / 60


def sell(kind: str, stock: int) -> int:
    """Sell all of it with a crowd; how many buyers were killed. Every snapshot adds up."""
    crowd = BUYERS + EXPIRERS + READERS
    answers = processes(crowd, _among_others, kind, stock)
    ((wrong, seen),) = (answer for answer in answers if isinstance(answer, tuple))
    assert wrong == []
    assert seen > stock / 10, "the reader came too late to see anything"
    return sum(answer for answer in answers if isinstance(answer, int))


def _among_others(number: int, kind: str, stock: int) -> Any:
    with override_counters(stock={"FLOOR": 0}):
        if number < BUYERS:
            return _buy_and_die(number, kind, stock)
        if number < BUYERS + EXPIRERS:
            while not _all_sold(kind, stock):
                expire_holds()
            return 0
        return _watch(kind, stock)


def _seen(kind: str) -> Stock:
    if kind == "named":
        return holds.stocktake("stock:lamp")
    return holds.stocktake(Product.stock.of(Product.objects.get().pk))


def _all_sold(kind: str, stock: int) -> bool:
    return _seen(kind).sold == stock


def _watch(kind: str, stock: int) -> tuple[list[Any], int]:
    wrong, seen, deadline = [], 0, time.monotonic() + PATIENCE
    while True:
        found = _seen(kind)
        seen += 1
        if found.total != stock or found.available < 0:
            wrong.append(found)
        if found.sold >= stock:
            return wrong, seen
        assert time.monotonic() < deadline, f"{found.sold} of {stock} are sold"


def _buy_and_die(number: int, kind: str, stock: int) -> int:
    """Let children buy, one after the other, and kill each second one; how many those were."""
    connections.close_all()
    chance, killed = random.Random(number), 0
    for life in range(10_000):
        pid = os.fork()
        if pid == 0:
            _live(random.Random(number * 10_000 + life), kind, stock)
        killed += life % 2 == 0 and _kill(pid, chance.random() / 4)
        _, status = os.waitpid(pid, 0)
        assert status in (0, signal.SIGKILL, _ON << 8), f"a buyer ended with {status}"
        if status == 0:
            return killed
    raise AssertionError("they buy for ever")


def _kill(pid: int, seconds: float) -> bool:
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


# A life is over, and not all is sold.
_ON = 7


def _live(chance: random.Random, kind: str, stock: int) -> None:
    """Buy some, and end the process: with 0 where all is sold."""
    try:
        for _ in range(40):
            try:
                _buy(chance, kind)
            except InsufficientCount:
                if _all_sold(kind, stock):
                    os._exit(0)
            except RetryTransaction:
                # Those who ask for what somebody held who was killed may wait in a circle there.
                assert connection.vendor == "mysql"
        os._exit(_ON)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _buy(chance: random.Random, kind: str) -> None:
    """Hold under a token that others may use as well, and then do something with it."""
    token = f"{int(time.time() * 4)}:{chance.randrange(12)}"
    if chance.random() < 0.3:
        token = f"own {chance.getrandbits(64)}"
    # The same token always asks for the same.
    wanted = 1 + sum(map(ord, token)) % 3
    try:
        _end(chance, _hold(kind, wanted, token))
    except InsufficientCount as error:
        if not error.available < error.requested == wanted:
            raise AssertionError("refused while there was enough") from error
        _end(chance, _hold(kind, 1, f"last {chance.getrandbits(64)}"))


def _hold(kind: str, wanted: int, token: str) -> Hold:
    if kind == "named":
        return holds.hold("stock:lamp", wanted, minutes=MINUTES, token=token)
    stock = Product.stock.of(Product.objects.get().pk)
    return holds.hold(stock, wanted, minutes=MINUTES, token=token)


def _end(chance: random.Random, hold: Hold) -> None:
    way = chance.randrange(8)
    with suppress(HoldEnded):
        if way == 0:
            hold.release()
        elif way == 1:
            # Goes away without a word.
            return
        elif way == 2:
            hold.extend(minutes=2 * MINUTES)
            hold.commit()
        elif way < 5 and hold.quantity > 1:
            hold.commit(quantity=hold.quantity - 1)
        else:
            hold.commit()
