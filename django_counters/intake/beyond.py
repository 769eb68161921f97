"""What of a stream is not counted: a range that is gone, and all where a position is no more."""

from __future__ import annotations

from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterIncident


class Beyond:
    """Says it once in each process, and writes it down once in the database.

    Args:
        source: what incidents call the stream.
        using: the database.
    """

    def __init__(self, source: str, using: str) -> None:
        self._source = source
        self._using = using
        # By part: a position that has moved is another one.
        self._told: dict[str, str] = {}

    def tell(self, part: str, position: str, end: str) -> list[str]:
        """The text about a part, unless it was told before. Within no landing or one."""
        if self._told.get(part) == position:
            return []
        self._told[part] = position
        # Without the end, which moves: a process that is started again writes the same.
        detail = {"part": part, "position": position, "reason": "beyond the end"}
        rows = CounterIncident._base_manager.using(self._using)
        kind = CounterIncident.Kind.LOST
        if not rows.filter(kind=kind, subject=self._source, detail=detail).exists():
            record(kind, self._source, detail, self._using)
        return [
            f"{part}: the position {position} is beyond the end {end or '(it is empty)'}: another "
            "stream has taken its place. Nothing of it is counted until its position is deleted"
        ]


def write_lost(called: str, after: str, before: str, source: str, using: str) -> str:
    """Write down that a part of a stream is gone and was not counted; the text about it.

    Args:
        called: the name of the whole, for people; its last word is that of the incident.
        after: the last that was counted, or is known.
        before: the first that is there.
        source: what incidents call the stream.
        using: the database, in the transaction that moves past it.
    """
    detail = {"part": called.split(" ")[-1], "after": after, "before": before}
    record(CounterIncident.Kind.LOST, source, detail, using)
    return f"lost: {called} after {after}"
