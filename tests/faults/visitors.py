"""Clients of the API that write down what became of each request, and what is true of it."""

from __future__ import annotations

import random
import threading
from collections import Counter as Sums
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from example_project.bootstrap import children
from tests.rest.site import Site, Told

KINDS = ("likes", "views", "scans")
VISITORS = 4
# Each counter has so many requests, each of which is a digit of its value.
DIGITS = 10
BASE = 4
RECORDS = 4000
COUNTED, REFUSED, UNKNOWN = "+", "-", "?"
_OUTCOMES = {200: COUNTED, 503: REFUSED, 504: UNKNOWN}
SETTLED_WITHIN = 60.0


class Visit(NamedTuple):
    """One request: by how much it counts says which one it is."""

    kind: str
    visitor: int
    turn: int

    @property
    def counter(self) -> str:
        """What it counts."""
        number = self.visitor * (RECORDS // VISITORS) + self.turn // DIGITS + 1
        return f"testapp.Ticket.scans:{number}" if self.kind == "scans" else f"{self.kind}:{number}"

    @property
    def by(self) -> int:
        """A power: that it was counted twice can be told from what others have counted."""
        return int(BASE ** (self.turn % DIGITS))

    @property
    def key(self) -> str:
        """Its Idempotency-Key; every other visitor sends none."""
        return f"{self.kind} {self.visitor} {self.turn}" if self.visitor % 2 else ""


@dataclass
class Visitors:
    """Threads that count until the block ends.

    Attributes:
        outcomes: what each request was told at last.
        odd: answers that are not declared.
        told: how often there was which answer.
    """

    site: Site
    who: str
    outcomes: dict[Visit, str] = field(default_factory=dict)
    odd: list[Told] = field(default_factory=list)
    told: Sums[str] = field(default_factory=Sums)

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Let them come meanwhile."""
        over = threading.Event()

        def come(visitor: int) -> None:
            turn = 0
            while not over.is_set() and turn < RECORDS // VISITORS * DIGITS:
                for kind in KINDS:
                    self.send(Visit(kind, visitor, turn))
                turn += 1

        crowd = [threading.Thread(target=come, args=(number,)) for number in range(VISITORS)]
        for one in crowd:
            one.start()
        try:
            yield
        finally:
            over.set()
            for one in crowd:
                one.join()

    def send(self, visit: Visit) -> Told:
        """Send a request, also one that was sent before."""
        told = self.site.increment(self.who, visit.counter, visit.by, visit.key)
        self.told[f"{told.status} {told.kind}".strip()] += 1
        waits = (told.status, told.kind) == (409, "in-progress") and visit in self.outcomes
        if not waits:
            self.outcomes[visit] = _OUTCOMES.get(told.status, UNKNOWN)
            if told.status not in _OUTCOMES:
                self.odd.append(told)
        return told

    def settle(self, chance: random.Random, pass_leases: Callable[[], object]) -> None:
        """Send again what is unknown, and some of what was refused, until it is answered.

        That is safe with a key, and without one it would not be.

        ``pass_leases``: lets nobody wait for those who have sent something before.
        """
        for visit, outcome in list(self.outcomes.items()):
            again = outcome == UNKNOWN or (outcome == REFUSED and chance.random() < 0.5)
            if visit.key and again:
                final = (200, 504) if visit.kind == "scans" else (200,)
                self._settle(visit, final, pass_leases)

    def _settle(
        self, visit: Visit, final: Sequence[int], pass_leases: Callable[[], object]
    ) -> None:
        told: list[Told] = []

        def answered() -> bool:
            pass_leases()
            told.append(self.send(visit))
            return told[-1].status in final

        assert children.until(answered, SETTLED_WITHIN), (visit, told[-1])

    def number(self, outcome: str) -> int:
        """How many requests were told so."""
        return Sums(self.outcomes.values())[outcome]

    def counted(self) -> int:
        """How many were counted with a key, or without one, whichever is less."""
        counted = [visit for visit, told in list(self.outcomes.items()) if told == COUNTED]
        keyed = sum(bool(visit.key) for visit in counted)
        return min(keyed, len(counted) - keyed)

    def problems(self) -> list[str]:
        """What breaks a promise: each counter is asked for once."""
        values = {counter: self._value(counter) for counter in self._counters()}
        wrong = []
        for visit, outcome in self.outcomes.items():
            times = values[visit.counter] // visit.by % BASE
            if times not in {COUNTED: (1,), REFUSED: (0,), UNKNOWN: (0, 1)}[outcome]:
                wrong.append(f"{visit}: told {outcome}, counted {times} times")
        return wrong

    def _value(self, counter: str) -> int:
        """Asked for until there is an answer: the network may still lose some."""
        told: list[Told] = []

        def answered() -> bool:
            told.append(self.site.get(f"/api/v1/counters/{counter}/exact"))
            return told[-1].status == 200

        assert children.until(answered, SETTLED_WITHIN), told[-1]
        return int(told[-1].body["value"])

    def _counters(self) -> set[str]:
        return {visit.counter for visit in self.outcomes}
