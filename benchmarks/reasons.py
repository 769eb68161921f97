"""What the page knows of rows beyond their figures: why they miss, and whose side is which."""

from __future__ import annotations

from typing import NamedTuple

DECISIONS = "../decisions"
UNKNOWN = "no reason known yet"


class Reason(NamedTuple):
    """What takes the time, in words, and the decision that has the figures."""

    words: str
    decision: str

    def __str__(self) -> str:
        number = int(self.decision[:4])
        return f"{self.words}: [decision {number}]({DECISIONS}/{self.decision}.md)"


EXACT = "0011-targets-that-are-missed"
LEDGER = "0014-targets-of-the-ledger-that-are-missed"
CACHED = "0018-targets-of-cached-counters-that-are-missed"

SCRIPT = Reason("the script: sent by redis-py it is no faster (`cached-script`)", CACHED)

REASONS = {
    "update": Reason("the way to the server and back, and asking for what is pending", EXACT),
    "sharded": Reason("processor time: both cores are busy", EXACT),
    "slotted": Reason("processor time, and a statement that is planned on each call", EXACT),
    "collector": Reason("the row is held while COMMIT is sent, and while the disk writes", EXACT),
    "commit64": Reason("half of it is reading the sum that is returned", EXACT),
    "cold-field": Reason("a statement that is planned on each call", EXACT),
    "combining": Reason("waking threads takes about as long as the statement", EXACT),
    "append": Reason("processor time: three indexes, and what makes it count once", LEDGER),
    "ledger": Reason("both cores are busy, and the transactions beside it never write", LEDGER),
    "drop": Reason("removing the files takes nearly all of it", LEDGER),
    "cached": SCRIPT,
    "cached-tcp": SCRIPT,
    "cached-cache": Reason("without any client it is little above 4 (`cached-socket`)", CACHED),
    "cached-commit": Reason("Python: checks, the namespace, and waiting for the commit", CACHED),
    "flush": Reason("the statement, its arguments, and what makes it land once", CACHED),
}

# Their subject is another way of counting, their reference the library.
TURNED = frozenset({"naive", "fixed16", "fixed100"})


def reason_of(case: str) -> str:
    """What is known of a row that misses its target."""
    return str(REASONS[case]) if case in REASONS else UNKNOWN
