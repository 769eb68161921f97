"""Long walks through a model by chance: its invariants hold at each step, and in the end.

A page that was read lies in a bag. It may be applied at any later moment, once or often, or never,
unless the server of whoever has read it starts anew: his transactions are gone then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Generic, NamedTuple, Protocol, TypeVar

World = TypeVar("World")
Page = TypeVar("Page")
Moves = Iterator[tuple[str, World]]
Offer = Callable[[World], Moves[World]]
ENDLESS = "the exchange has no end"
_MOST = 200
_READ, _LATE = 6, 8


class Model(Protocol[World, Page]):
    """What a walk needs of a model."""

    @property
    def count(self) -> int:
        """How many regions there are."""

    def start(self) -> World:
        """The first state."""

    def choices(self, world: World, at: int, other: int) -> list[tuple[int, Moves[World]]]:
        """How likely each kind of step is, and the steps."""

    def pages(self, world: World, at: int, other: int) -> Iterator[Page]:
        """What one region may read of another one."""

    def apply(self, world: World, at: int, page: Page) -> World:
        """The state after a page."""

    def life(self, world: World, at: int) -> int:
        """What the server of a region says of itself."""

    def upkeep(self) -> list[Offer[World]]:
        """What goes on until nothing is new."""

    def fault(self, world: World, *, quiet: bool) -> str:
        """What is wrong with a state. ``quiet``: whether all is exchanged."""


class Walked(NamedTuple):
    """What was wrong, if anything, and the steps to it."""

    fault: str
    trace: tuple[str, ...]


class Walk(Generic[World, Page]):
    """One walk, and the exchange of all that is left. Some steps find nothing to do."""

    def __init__(self, model: Model[World, Page], seed: int) -> None:
        self._model = model
        self._chance = Random(seed)
        self._world = model.start()
        self._bag: list[tuple[int, Page]] = []
        self._trace: list[str] = []

    def run(self, length: int) -> Walked:
        """The first fault of a walk, if it has one."""
        for _ in range(length):
            before = self._world
            self._step()
            if before != self._world and (fault := self._model.fault(self._world, quiet=False)):
                return Walked(fault, tuple(self._trace))
        settled = settle(self._world, self._model.upkeep())
        fault = ENDLESS if settled is None else self._model.fault(settled, quiet=True)
        return Walked(fault, tuple(self._trace))

    def _step(self) -> None:
        at, other = self._chance.sample(range(self._model.count), 2)
        choices = self._model.choices(self._world, at, other)
        weights = [_READ, _LATE, *(weight for weight, _ in choices)]
        (number,) = self._chance.choices(range(len(weights)), weights)
        if number == 0:
            self._read(at, other)
        elif number == 1:
            self._apply()
        else:
            self._move(choices[number - 2][1])

    def _read(self, at: int, other: int) -> None:
        for page in self._model.pages(self._world, at, other):
            self._trace.append(f"{at} pulls of {other}, and stands still")
            self._bag.append((at, page))

    def _apply(self) -> None:
        """A page of the bag is applied. It may stay there, and come again."""
        if self._bag:
            number = self._chance.randrange(len(self._bag))
            at, page = self._bag[number]
            if self._chance.random() < 0.7:
                del self._bag[number]
            self._trace.append(f"{at} goes on with {page}")
            self._world = self._model.apply(self._world, at, page)

    def _move(self, moves: Moves[World]) -> None:
        found = list(moves)
        if found:
            before = self._world
            label, self._world = self._chance.choice(found)
            self._trace.append(label)
            self._bag = [(at, page) for at, page in self._bag if self._lives(at, before)]

    def _lives(self, at: int, before: World) -> bool:
        return self._model.life(before, at) == self._model.life(self._world, at)


def settle(world: World, offers: list[Offer[World]]) -> World | None:
    """All upkeep until nothing is new; None: there is no end."""
    moved, number = True, 0
    while moved:
        moved = False
        for offer in offers:
            while (move := next(offer(world), None)) is not None:
                moved, number, world = True, number + 1, move[1]
                if number > _MOST:
                    return None
    return world
