"""How far the views have come: written by those who count, then in Redis, then in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from django.db.models import Sum

from django_counters import CounterUnavailable
from django_counters.models import Counter
from django_counters.stores.sql.outbox import SqlLanded
from django_counters.stores.sql.tables import NAMED
from example_project.blog.models import Post
from example_project.named import keys_of
from example_project.tally import UNKNOWN, acknowledged, uncertain

VISITS = "visits"


@dataclass(frozen=True)
class Flow:
    """Changes of cached counters, by where they are.

    As long as all are known: written + in flight + unknown = in Redis + in PostgreSQL + lost +
    not counted.

    Attributes:
        written: those whose requests were answered; None where nobody keeps an account.
        waiting: those in Redis; None while it does not answer.
        landed: those in the database, entries that were spilled there included.
        unknown: those of which nobody knows whether they were counted.
        asked: those that were being counted while this was read.
    """

    written: int | None
    waiting: int | None
    landed: int
    unknown: int = 0
    asked: int = 0

    @property
    def lost(self) -> int | None:
        """Those that were answered and are nowhere; None where that cannot be told.

        It may be more by those in flight and unknown that are not among `not_counted`.
        """
        return None if self._missing is None else max(0, self._missing)

    @property
    def in_flight(self) -> int | None:
        """Those that nobody was told of yet, counted or not; None where that is not known.

        Not all ways to count say that they begin: some are seen when they have counted.
        """
        return None if self._missing is None else max(self.asked, -self._missing - self.unknown)

    @property
    def not_counted(self) -> int | None:
        """Those in flight and unknown that are nowhere; None where that is not known."""
        if self.in_flight is None or self._missing is None:
            return None
        return self.in_flight + self.unknown + min(0, self._missing)

    def as_json(self) -> dict[str, int | None]:
        """All of this as plain data."""
        told = {"in_flight": self.in_flight, "lost": self.lost, "not_counted": self.not_counted}
        return {**asdict(self), **told}

    @property
    def _missing(self) -> int | None:
        """How many more were answered than are somewhere."""
        if self.written is None or self.waiting is None:
            return None
        return self.written - self.waiting - self.landed

    def __str__(self) -> str:
        parts = {"in Redis": self.waiting, "in PostgreSQL": self.landed}
        if self.written is not None:
            before = {"written": self.written, "in flight": self.in_flight}
            parts = {**before, **parts, "lost": self.lost}
        if self.unknown:
            parts |= {"unknown": self.unknown, "not counted": self.not_counted}
        return " · ".join(f"{name} {grouped(number)}" for name, number in parts.items())


def grouped(number: float | None) -> str:
    """12400 as ``12 400``, and a question mark for what is not known."""
    return "?" if number is None else f"{number:,.0f}".replace(",", "\N{NO-BREAK SPACE}")


class Meter:
    """Measures the flow since it was made.

    Args:
        sums: tells what was answered.
    """

    def __init__(self, sums: Callable[[], Mapping[str, int]]) -> None:
        self._sums = sums
        self._began = _exact(_keys({}))

    def read(self) -> Flow:
        """The flow of this moment.

        In this order nothing can seem lost that is not: what is answered was counted before, and
        what has landed meanwhile is only taken for what still waits.
        """
        sums = self._sums()
        keys = _keys(sums)
        landed = _landed(keys) - self._began
        try:
            waiting: int | None = _exact(keys) - self._began - landed
        except CounterUnavailable:
            waiting = None
        return Flow(acknowledged(sums), waiting, landed, uncertain(sums))


def landed_views() -> int:
    """The views of all posts that are in the database."""
    return int(Post.objects.aggregate(sum=Sum("views", default=0))["sum"])


def exact_views() -> int:
    """The same, with those that wait in Redis.

    Raises:
        CounterUnavailable: Redis does not answer.
    """
    return sum(int(post.views) for post in Post.objects.with_counts("views"))


def _keys(sums: Mapping[str, int]) -> list[str]:
    """Also those that are in no table yet, because all of them still waits in Redis."""
    told = (name.removeprefix(f"{UNKNOWN}:") for name in sums)
    return sorted({*keys_of(VISITS), *(key for key in told if key.startswith(f"{VISITS}:"))})


def _landed(keys: Iterable[str]) -> int:
    named = SqlLanded(NAMED, "default").read(list(keys))
    return landed_views() + sum((one.total or 0) + one.pending for one in named.values())


def _exact(keys: Iterable[str]) -> int:
    return exact_views() + sum(Counter.objects.values_of(keys).values())
