"""Shoppers: each has a basket, and buys it, a part of it, or nothing, or forgets it."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from django_counters import token_of
from example_project.browser import NO_ANSWER, Browser
from example_project.tally import BASKET_SECONDS, Tally

# How many give it back, how many just go away, and how many of those come back too late.
GIVE_BACK, FORGET, TOO_LATE = 0.2, 0.25, 0.1
# How many send what they send once more, as if there had been no answer.
AGAIN = 0.2
# How long they think (seconds).
THINK = (0.0, 0.8)


class _Basket(NamedTuple):
    """Where it is, what is in it, and when it was asked for: not before that was it held."""

    page: str
    quantity: int
    since: float


@dataclass(frozen=True)
class Shoppers:
    """People who come one after the other, for one product."""

    browser: Browser
    product: int
    buyer: str
    tally: Tally
    stop: threading.Event

    def one_more(self) -> bool:
        """Let another one come; True if he has got a basket."""
        basket = self._fill()
        if basket is None:
            return False
        self.tally.add("baskets filled")
        self.stop.wait(random.uniform(*THINK))
        way = random.random()
        if way < GIVE_BACK:
            self._give_back(basket)
        elif way < GIVE_BACK + FORGET:
            self._forget(basket)
        else:
            self._buy(basket)
        return True

    def _fill(self) -> _Basket | None:
        number, quantity = token_of(secrets.token_hex(16), datetime.now(UTC)), random.randint(1, 3)
        basket = _Basket(f"/shop/baskets/{number}/", quantity, time.monotonic())
        path = f"/shop/{self.product}/basket"
        status = self._send(path, {"quantity": quantity, "number": number}, 302)
        if status == 409:
            self.tally.add("refused")
        return basket if status == 302 and self.browser.get(basket.page) == 200 else None

    def _buy(self, basket: _Basket) -> None:
        quantity = random.randint(1, basket.quantity)
        if self._check_out(basket, quantity) == 200:
            self.tally.add(f"sold:{self.product}", quantity)
            self.tally.add(f"from baskets:{self.product}", quantity)
            self.tally.add("baskets bought")

    def _check_out(self, basket: _Basket, quantity: int) -> int:
        form = {"quantity": quantity, "buyer": self.buyer}
        status = self._send(f"{basket.page}checkout", form, 200)
        if status == 409 and time.monotonic() - basket.since < BASKET_SECONDS:
            self.tally.fail(f"{basket.page} was over before its time")
        return status

    def _give_back(self, basket: _Basket) -> None:
        if self._send(f"{basket.page}leave", {}, 302) == 302:
            self.tally.add("baskets given back")

    def _forget(self, basket: _Basket) -> None:
        self.tally.add("baskets forgotten")
        is_over = random.random() < TOO_LATE and not self.stop.wait(BASKET_SECONDS + 1)
        if is_over and self._check_out(basket, basket.quantity) == 200:
            self.tally.fail(f"{basket.page} was sold when its time was over")

    def _send(self, path: str, form: Mapping[str, object], wanted: int) -> int:
        """The status: the wanted one, 409, or no answer. Sent again, it is the same."""
        status = self.browser.post(path, form)
        if status == wanted and random.random() < AGAIN:
            again = self.browser.post(path, form, again=True)
            self.tally.add("sent_again")
            if again not in (status, NO_ANSWER):
                self.tally.fail(f"POST {path}, sent again: HTTP {again}")
        elif status not in (wanted, 409, NO_ANSWER):
            self.tally.fail(f"POST {path}: HTTP {status}")
        return status
