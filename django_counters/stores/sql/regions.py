"""What regions have counted, in one database. Its meaning is in `upkeep.regions`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from django_counters.stores.sql.session import Session
from django_counters.stores.sql.tables import NAMED

_PAGE = 10_000
#: The timeline of an incarnation that has ended.
CLOSED = "closed"
#: How `CounterPosition` begins what it calls regions.
SOURCES = "region "
#: What `CounterPosition` calls the moments at which all of a region was published or copied; a part
#: for each region. They are rows of their own: a page that moves a cursor says nothing of the rest.
COMPLETE = "region"


class Of(NamedTuple):
    """Whose entries: an incarnation of a region."""

    region: str
    incarnation: int

    @property
    def source(self) -> str:
        """What `CounterPosition` calls it."""
        return source_of(self.region)

    @property
    def part(self) -> str:
        """Which part of that."""
        return str(self.incarnation)


class Page(NamedTuple):
    """Some entries (key, value, version), and the clock and the life of the same moment."""

    entries: Sequence[tuple[str, int, int]]
    clock: int
    life: str

    @property
    def last(self) -> int:
        """The newest version in it."""
        return max(version for _, _, version in self.entries)


def source_of(region: str) -> str:
    """What `CounterPosition` calls a region."""
    return f"{SOURCES}{region}"


def is_another_history(life: str, other: str) -> bool:
    """Whether more has happened between two lives of a server than that it was started."""
    return bool(life) and life.rpartition(" ")[0] != other.rpartition(" ")[0]


class SqlRegions:
    """The entries of one database. Holds no connection."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sql = session.dialect.regions
        self._many = session.dialect.reads(NAMED.quoted(session.quote)).many

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction whose statements see what was committed before each of them."""
        with self._session.read_committed():
            if self._session.dialect.limits_time:
                # To compile one of these statements takes longer than to execute it.
                self._session.run(self._session.dialect.hurry("jit"), ("off",))
            yield

    def life(self) -> str:
        """The text of the server about itself: another text after a restart, or in a copy."""
        return str(self._session.run(self._sql.life, (), writes=False)[0][0])

    def values(
        self, keys: Sequence[str], region: str | None, *, own: bool
    ) -> Mapping[Hashable, int]:
        """What regions have counted together, or one of them; in one statement.

        ``own``: with what is counted here.
        """
        among = self._session.dialect.keys(keys)
        sql, params = self._sql.others, [among]
        if region is not None:
            sql, params = self._sql.other, [among, region]
        if own:
            sql, params = f"{self._many} UNION ALL {sql}", [among, among, among, *params]
        found: dict[Hashable, int] = {}
        for key, total, pending in self._session.run(sql, params, writes=False):
            found[key] = found.get(key, 0) + int(total or 0) + int(pending or 0)
        return found

    def each(self, key: str, own: str, *, here: bool) -> dict[str, int]:
        """What each region has counted of one counter; in one statement.

        ``own``: the region of this database; ``here``: with what is counted in it.
        """
        among = self._session.dialect.keys([key])
        sql, found = self._sql.each, {own: 0}
        params = [among]
        if here:
            sql, params = f"{self._many} UNION ALL {sql}", [among] * 4
        for name, total, pending in self._session.run(sql, params, writes=False):
            # No region has a colon in its name, and the key of a regional counter has one.
            region = own if name == key else name
            found[region] = found.get(region, 0) + int(total or 0) + int(pending or 0)
        return found

    def ranges(self, low: str, high: str) -> Iterator[tuple[str, str]]:
        """The pages of counters from a key on and before another one."""
        return self._ranges(self._sql.edge, {}, low, high)

    def ranges_of(self, of: Of) -> Iterator[tuple[str, str]]:
        """The pages of the entries of an incarnation."""
        return self._ranges(self._sql.edge_of_entries, of._asdict(), "", "\U0010ffff")

    def _ranges(
        self, edge: str, given: dict[str, Hashable], low: str, high: str
    ) -> Iterator[tuple[str, str]]:
        while True:
            params = {**given, "low": low, "high": high, "most": _PAGE}
            rows = self._session.run(edge, params, writes=False)
            until = rows[0][0] if rows else high
            yield low, until
            if not rows:
                return
            low = until

    def publish(self, of: Of, low: str, high: str, version: int) -> int:
        """Give entries whose value has changed their value and a version; how many."""
        params = {**of._asdict(), "low": low, "high": high, "version": version}
        return len(self._session.run(self._sql.publish, params))

    def page(self, of: Of, since: int) -> Page | None:
        """The next entries after a version; None where there are no more."""
        params = {**of._asdict(), "source": of.source, "part": of.part}
        rows = self._session.run(
            self._sql.page, {**params, "since": since, "most": _PAGE}, writes=False
        )
        if not rows:
            return None
        # Where it is a copy, the source of the copy is behind the number.
        clock, _, _ = rows[0][3].partition("/")
        return Page([row[:3] for row in rows], int(clock or 0), rows[0][4])

    def store(self, of: Of, entries: Sequence[tuple[str, int, int]]) -> int:
        """Copy entries that are newer; how many."""
        columns = self._session.dialect.columns(entries)
        return len(self._session.run(self._sql.store, (*of, *columns)))

    def begin(self, of: Of, to: Of, clock: int, low: str, high: str, *, whole: bool) -> None:
        """Begin an incarnation after another one; see the statement."""
        new = {"to": to.region, "new": to.incarnation}
        params = {**of._asdict(), **new, "clock": clock, "all": int(whole)}
        self._session.run(self._sql.begin, {**params, "low": low, "high": high})

    def end(self, of: Of, low: str, high: str, version: int) -> None:
        """Give entries of an incarnation that ends a new version."""
        params = {**of._asdict(), "low": low, "high": high, "version": version}
        self._session.run(self._sql.end, params)

    def above_zero(self, low: str, high: str, most: int = _PAGE) -> dict[str, int]:
        """Counters of which all regions together have something, and how much."""
        params = {"low": low, "high": high, "most": most}
        rows = self._session.run(self._sql.above_zero, params, writes=False)
        return {key: int(amount) for key, amount in rows}

    def stock(self, low: str, high: str) -> dict[str, int]:
        """The counts of this region alone, of counters with a floor, where it is not zero."""
        rows = self._session.run(self._sql.stock, {"low": low, "high": high}, writes=False)
        return {key: int(amount) for key, amount in rows}

    def clear(self, region: str, low: str, high: str) -> None:
        """Let the entries of a region be nothing: its value is what it has here."""
        self._session.run(self._sql.clear, {"region": region, "low": low, "high": high})

    def poor(
        self, region: str, regions: int, below: int, low: str, high: str, most: int
    ) -> list[str]:
        """Keys of which a region has most, and another one has less than ``below``."""
        within = {"low": low, "high": high, "most": most}
        params = {"region": region, "regions": regions, "below": below, **within}
        return [key for (key,) in self._session.run(self._sql.poor, params, writes=False)]

    def drop(self, of: Of) -> None:
        """Forget the entries of a region from an incarnation on."""
        self._session.run(self._sql.drop, of)

    def sum(self, region: str) -> int:
        """The counts of a region, of all counters together."""
        return int(self._session.run(self._sql.sum, (region,), writes=False)[0][0])
