"""Increments that wait in rows of their own, in MySQL: each connection has one of them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import Any

from django_counters.stores.sql.dialects.mysql.taking import ROOM
from django_counters.stores.sql.dialects.mysql.waiting import BY_KEY, at_most
from django_counters.stores.sql.dialects.rights import Rights
from django_counters.stores.sql.dialects.spelling import Either
from django_counters.stores.sql.dialects.spread import SpreadStatements


class MysqlSpread(SpreadStatements):
    """Adds to the row that has the number of the connection, or to the one that is wanted."""

    @cached_property
    def add(self) -> str:
        """Add, or insert where there is no row yet. See `MysqlNamedTotals` for whom it waits."""
        pending = self._table.pending
        marks = ", ".join(self.owned_by())
        given = (
            f"{self.given()}, @djc_low = %s, @djc_high = %s, @djc_fits = NULL; "
            f"SELECT 1 INTO @djc_fits FROM ({self.source()}) t "
            f"WHERE t.total + ({self.others()}) BETWEEN @djc_low AND @djc_high; "
        )
        change = (
            f"UPDATE {pending.name} p SET p.{pending.value} = p.{pending.value} + @djc_by "
            f"WHERE {self.owned()} AND p.{pending.number} = @djc_row AND @djc_fits; "
        )
        make = (
            f"INSERT INTO {pending.name} ({', '.join(pending.owner)}, {pending.number}, "
            f"{pending.value}) SELECT {marks}, @djc_row, @djc_by FROM DUAL WHERE @djc_fits "
            f"ON DUPLICATE KEY UPDATE {pending.name}.{pending.value} = "
            f"{pending.name}.{pending.value} + @djc_by; {self.answer}"
        )
        return Either(
            f"{given}{change}{self.answer}", f"{given}{at_most(0)}{make}", f"{given}{make}"
        )

    def arrange(
        self,
        by: int,
        wanted: int | None,
        key: Hashable,
        address: tuple[Any, ...],
        floor: int | None = None,  # noqa: ARG002 - see `MysqlRights`
    ) -> tuple[Any, ...]:
        """The parameters of ``add``."""
        low, high = self._table.capacity
        limits = (low - min(by, 0), high - max(by, 0))
        return (by, wanted, key, *address, *limits, *self.again(key))

    def again(self, key: Hashable) -> tuple[Hashable, ...]:
        """The key, as often as a text asks for a total by it: a variable has not its type."""
        return (key, key) if self._table.value and not self._table.inserts else ()

    def given(self) -> str:
        """Name the parameters. Parameters: by, the number of a row, key, address."""
        owners = "".join(f", {name} = %s" for name in self.owned_by())
        return (
            f"SET @djc_by = %s, @djc_row = COALESCE(%s, CONNECTION_ID() %% {self.cap}), "
            f"@djc_key = %s{owners}"
        )

    def owned_by(self) -> list[str]:
        """What the columns of ``owner`` are compared with."""
        return [f"@djc_owner{number}" for number, _ in enumerate(self._table.pending.owner)]

    def owned(self, alias: str = "p") -> str:
        """The condition that a row belongs to the counter."""
        pairs = zip(self._table.pending.owner, self.owned_by(), strict=True)
        return " AND ".join(f"{alias}.{column} = {name}" for column, name in pairs)

    def others(self) -> str:
        """What waits for the counter."""
        pending = self._table.pending
        return (
            f"SELECT COALESCE(SUM(p.{pending.value}), 0) FROM {pending.name} p WHERE {self.owned()}"
        )

    def source(self) -> str:
        """The total, where there is a column for it."""
        return self._source().replace("%s", self.key)

    @property
    def key(self) -> str:
        """What keys are compared with."""
        return "@djc_key" if self._table.inserts else "%s"

    @property
    def answer(self) -> str:
        """The value, as others see it too, and the number of the row, where one was changed."""
        return (
            f"SELECT ({self.others()}) + COALESCE(({self.source()}), 0), @djc_row "
            "FROM DUAL WHERE ROW_COUNT() > 0"
        )


class MysqlRights(Rights):
    """Takes from a row that nobody holds and that has enough: at best that of the connection.

    Whoever finds none holds none: so it may wait for the total, then for all rows.
    """

    _spread: MysqlSpread

    @cached_property
    def take(self) -> str:
        """Take away. Without a transaction a row that was found is asked again when it is held."""
        pending, spread = self._table.pending, self._spread
        enough = f"{spread.owned()} AND p.{pending.value} >= -@djc_by AND NOT @djc_strange"
        found = (
            f"SELECT p.{pending.number} INTO @djc_found FROM {pending.name} p WHERE {enough} "
            f"AND p.{pending.number}"
        )
        free = f"LIMIT 1 FOR UPDATE{self._in.skipping}; "
        return (
            f"{spread.given()}, @djc_floor = %s, @djc_found = NULL; "
            # SET would hold all that it reads, in share mode; a SELECT holds nothing.
            f"{self._looks()}; "
            f"{found} >= @djc_row {free}{found} >= 0 AND @djc_found IS NULL {free}"
            "SET @djc_row = @djc_found; "
            f"UPDATE {pending.name} p SET p.{pending.value} = p.{pending.value} + @djc_by "
            f"WHERE {enough} AND p.{pending.number} = @djc_row; {spread.answer}"
        )

    def _looks(self) -> str:
        """Whether rows have to be shared anew before one is taken from.

        They are strange where another strategy has left one below zero, or the total below the
        floor. Where fewer than half of those that there may be have enough, writers
        would meet at these.
        """
        pending, spread = self._table.pending, self._spread
        have = f"COALESCE(SUM(p.{pending.value}), 0) + ({spread.source()}) - @djc_floor"
        rich = f"COALESCE(SUM(p.{pending.value} >= -@djc_by), 0)"
        return (
            f"SELECT COALESCE(MIN(p.{pending.value}) < 0, false) OR {self._below()} "
            f"OR 2 * {rich} < LEAST({spread.cap}, ({have}) DIV -@djc_by) INTO @djc_strange "
            f"FROM {pending.name} p WHERE {spread.owned()} AND p.{pending.number} >= 0"
        )

    def arrange(
        self, by: int, floor: int, key: Hashable, address: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The parameters of ``take``."""
        again = self._spread.again(key)
        return (by, None, key, *address, floor, *again[:1], *again)

    def _below(self) -> str:
        """Whether the total is below the floor."""
        table = self._table
        mine = f"t.{table.key} = {self._spread.key}"
        return (
            f"(COALESCE((SELECT t.{table.value} FROM {table.name} t WHERE {mine}), 0) < @djc_floor)"
        )

    @cached_property
    def gather(self) -> str:
        """Take rows of one counter away, waiting for those that somebody holds."""
        pending, spread = self._table.pending, self._spread
        owners = ", ".join(f"{name} = %s" for name in spread.owned_by())
        gone = "JSON_TABLE(@djc_rows, '$[*]' COLUMNS (n BIGINT PATH '$[0]', d BIGINT PATH '$[1]'))"
        return (
            f"{ROOM}SET {owners}, @djc_most = %s; "
            f"SELECT JSON_ARRAYAGG(JSON_ARRAY(p.{pending.number}, p.{pending.value})) "
            f"INTO @djc_rows FROM {pending.name} p WHERE {spread.owned()} "
            f"AND p.{pending.number} >= 0 AND p.{pending.value} <= @djc_most FOR UPDATE; "
            f"DELETE p FROM {gone} AS u STRAIGHT_JOIN {pending.name} p {BY_KEY} "
            f"ON {spread.owned()} AND p.{pending.number} = u.n; SELECT u.d FROM {gone} AS u"
        )

    @cached_property
    def share(self) -> str:
        """Make rows of one counter with the same value, but those that are there already."""
        pending, spread = self._table.pending, self._spread
        owners = ", ".join(f"{name} = %s" for name in spread.owned_by())
        columns = ", ".join((*pending.owner, pending.number, pending.value))
        marks = ", ".join(spread.owned_by())
        numbers = "JSON_TABLE(@djc_rows, '$[*]' COLUMNS (n FOR ORDINALITY, k BIGINT PATH '$'))"
        # Nothing but a row that is there can be ignored: the numbers fit.
        return (
            f"SET {owners}, @djc_by = %s, @djc_rows = JSON_ARRAY%s; "
            f"INSERT IGNORE INTO {pending.name} ({columns}) "
            f"SELECT {marks}, u.k, @djc_by FROM {numbers} AS u; "
            f"SET @djc_made = ROW_COUNT(); SELECT 1 FROM {numbers} AS u WHERE u.n <= @djc_made"
        )
