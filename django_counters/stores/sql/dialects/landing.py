"""The statements of a landing: their purpose, parameters and their rows."""

from __future__ import annotations

from django_counters.stores.sql.dialects.spelling import READ_COMMITTED, Spelling

BATCHES = "django_counters_counterbatch"
SOURCES = "django_counters_countersource"


class LandingStatements:
    """The statements that bring generations of increments into the totals.

    Attributes:
        begin: the first statement of the transaction.
        settings: what holds for this transaction alone, where the database limits time. Parameters:
            for how many milliseconds a statement waits for a lock, and how many it may take, as
            texts.
        together: amounts, and the generations that are there, of one moment. The statement of
            ``Reads.many`` stands where the braces are. Parameters: those of it, generations.
            Rows: key, total, pending, NULL, or NULL three times and a generation.
        settled: whether a statement of this transaction sees what is committed by now, and nothing
            else, where that can be told.
        may_ask: whether the caller may execute ``whole``; else ``part`` says what it can. Each has
            one row of one column.
        whole: which database this is, where a server has it.
    """

    # Where transactions keep one snapshot, what another landing has just written is an error.
    begin = READ_COMMITTED
    settings: str
    settled: str
    may_ask: str
    whole: str
    part: str

    def __init__(self, spelling: Spelling) -> None:
        self.together = (
            "SELECT r.*, NULL FROM ({}) r UNION ALL SELECT NULL, NULL, NULL, generation "
            f"FROM {BATCHES} WHERE generation {spelling.among('uuid')}"
        )
