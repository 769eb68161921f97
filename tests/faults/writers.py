"""Processes that count, and write down what became of each increment."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from tests.faults.cells import COUNTRIES
from tests.faults.scene import HOT, Board, Log, Scene

# Of what is sent after COMMIT nobody is told; what cannot be sent is an incident.
COUNTED, UNKNOWN, REFUSED, COMMITTED = "+?-~"
# Those that need commits that wait.
DURABLE = {"spilled", "commit"}
# Those who have counted what many count, and what they were told.
PEOPLE = "visitors"
# The end of a key that is counted with a token.
TOKENED = ".token"
# How often each way of counting is chosen.
WAYS = {"one": 5, "spilled": 3, "many": 2, "token": 2, "hot": 3, "commit": 1, "rollback": 1}
# Seconds for which a token is tried again.
INSISTENCE = 25.0


class Writer:
    """Counts in one way after the other, each key once; a key that is used twice has a token."""

    def __init__(self, number: int, scene: Scene, board: Board) -> None:
        self._number = number
        self._board = board
        self._namespaces = ["plain"] if scene.careless else ["plain", "spill"]
        self._ways = dict(WAYS)
        for way in DURABLE if scene.careless else ():
            del self._ways[way]
        self._chance = random.Random(f"{scene.seed} writer {number}")
        self._log = Log(scene.path(f"writer{number}.log"))
        self._people = Log(scene.path(f"{PEOPLE}{number}.log"))
        self._made = 0

    def run(self) -> None:
        """Count until the scene is over."""
        ways, weights = list(self._ways), list(self._ways.values())
        while not self._board.is_over:
            (way,) = self._chance.choices(ways, weights)
            getattr(self, f"_{way}")()
            time.sleep(self._chance.uniform(0, 0.003))

    def _key(self, namespace: str, mark: str = "") -> str:
        self._made += 1
        return f"{namespace}:{self._number}-{self._made}{mark}"

    def _one(self) -> None:
        self._increment(self._key("plain"))

    def _spilled(self) -> None:
        self._increment(self._key("spill"))

    def _increment(self, key: str) -> None:
        tags = self._tags()
        told = self._outcome(lambda objects: objects.increment(key, tags=tags, who=key))
        self._note(told, tags, key)

    def _tags(self) -> dict[str, str]:
        return {"country": self._chance.choice(COUNTRIES)}

    def _many(self) -> None:
        namespace = self._chance.choice(self._namespaces)
        keys = [self._key(namespace) for _ in range(self._chance.randint(2, 9))]
        deltas, tags = dict.fromkeys(keys, 1), self._tags()
        told = self._outcome(lambda objects: objects.increment_many(deltas, tags=tags, who=keys[0]))
        self._note(told, tags, *keys)

    def _token(self) -> None:
        """Again until it is acknowledged; sometimes after that."""
        from django_counters import clock
        from django_counters.tokens import mint

        namespace = self._chance.choice(self._namespaces)
        key, token, tags = self._key(namespace, TOKENED), mint(clock.utc()), self._tags()

        def count() -> str:
            return self._outcome(
                lambda objects: objects.increment(key, token=token, tags=tags, who=key)
            )

        outcome = REFUSED
        deadline = time.monotonic() + INSISTENCE
        # Refused once, and unknown before: it is unknown.
        while outcome != COUNTED and time.monotonic() < deadline:
            outcome = max(outcome, count(), key="-?+".index)
            time.sleep(0.01)
        if self._chance.random() < 0.2:
            count()
        self._note(outcome, tags, key)

    def _hot(self) -> None:
        tags, who = self._tags(), self._key("visitor")
        place = self._board.place(self._number, tags["country"])
        self._board.attempted[place] += 1
        self._people.write(f"{UNKNOWN} {who}")
        if self._outcome(lambda objects: objects.increment(HOT, tags=tags, who=who)) == COUNTED:
            self._board.acknowledged[place] += 1
            self._people.write(f"{COUNTED} {who}")

    def _commit(self) -> None:
        self._transaction(COMMITTED, rolls_back=False)

    def _rollback(self) -> None:
        self._transaction(REFUSED, rolls_back=True)

    def _transaction(self, meant: str, *, rolls_back: bool) -> None:
        from django.db import DatabaseError, connection, transaction

        from django_counters.errors import CounterError, OutcomeUnknown

        key, tags = self._key("plain"), self._tags()

        def count(objects: Any) -> None:
            try:
                with transaction.atomic():
                    objects.increment(key, tags=tags, who=key)
                    transaction.set_rollback(rolls_back)
            except DatabaseError as error:
                if isinstance(error, CounterError) or connection.is_usable():
                    raise
                # The transaction is the caller's, and so is this error.
                raise OutcomeUnknown(using="default") from error

        # Where COMMIT failed it is not known; a rollback that failed is one, too.
        committed = self._outcome(count)
        self._note(meant if committed == COUNTED or rolls_back else committed, tags, key)

    def _note(self, outcome: str, tags: dict[str, str], *keys: str) -> None:
        self._log.write("\n".join(f"{outcome} {key} {tags['country']} {keys[0]}" for key in keys))

    def _outcome(self, count: Callable[[Any], object]) -> str:
        """Count; any error that is none of ours ends this process, and the test fails."""
        from django.db import connection

        from django_counters.errors import CounterUnavailable, OutcomeUnknown
        from django_counters.models import Counter

        try:
            count(Counter.objects)
        except OutcomeUnknown:
            outcome = UNKNOWN
        except CounterUnavailable:
            outcome = REFUSED
        else:
            return COUNTED
        connection.close_if_unusable_or_obsolete()
        return outcome
