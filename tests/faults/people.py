"""The people of a scene: each who was counted is in the set of his counter, and nobody else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import psycopg

from django_counters.contrib.uniques.sketches import Sketch
from django_counters.measure import member_of

_SETS = "SELECT key, kind, body FROM django_counters_counterunique WHERE period = 3"
_SECRETS = "SELECT name, secret FROM django_counters_countermeasure"
_WAITING = "SELECT key, member FROM django_counters_countermember WHERE period = 3"


class People:
    """The sets of a database, of all tags and days of a counter."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as database:
            self._secrets = {
                str(name): bytes(secret) for name, secret in database.execute(_SECRETS).fetchall()
            }
            self._sets = {
                key: self._sets_of(found)
                for key, found in _by_key(database.execute(_SETS).fetchall()).items()
            }
            for key, found in _by_key(database.execute(_WAITING).fetchall()).items():
                waiting = Sketch.of(member for (member,) in found)
                self._sets[key] = self._sets.get(key, Sketch()) | waiting

    @staticmethod
    def _sets_of(found: Iterable[tuple[Any, ...]]) -> Sketch:
        together = Sketch()
        for kind, body in found:
            together |= Sketch(kind, bytes(body))
        return together

    def wrong(
        self, values: Mapping[str, int], came: Mapping[str, str], others: Collection[str] = ()
    ) -> list[str]:
        """Counters in whose sets are others than those who were counted.

        Args:
            values: what was counted, of each counter that was.
            came: who has counted each counter; nobody where he is "".
            others: counters that many have counted.
        """
        wrong = sorted(self._sets.keys() - came.keys() - set(others))
        for key, who in came.items():
            due = self._of(key, [who] if who and values.get(key, 0) else [])
            if self._sets.get(key, Sketch()) != due:
                wrong.append(f"{key} of {who}: {self.number(key)} of {values.get(key, 0)}")
        return wrong

    def lacks(self, key: str, people: Collection[str]) -> bool:
        """Whether one of them is not in the set."""
        found = self._sets.get(key, Sketch())
        return found | self._of(key, people) != found

    def has_others(self, key: str, people: Collection[str]) -> bool:
        """Whether somebody else is in the set, or is nearly surely, where it is large."""
        due = self._of(key, people)
        return self._sets.get(key, Sketch()) | due != due

    def number(self, key: str) -> int:
        """How many there are."""
        return self._sets.get(key, Sketch()).count()

    def _of(self, key: str, people: Iterable[str]) -> Sketch:
        """Each namespace has a secret of its own."""
        return Sketch.of(member_of(who, self._secrets[key.partition(":")[0]]) for who in people)


def _by_key(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for key, *rest in rows:
        found.setdefault(str(key), []).append(tuple(rest))
    return found
