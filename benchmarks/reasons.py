"""What the page knows of rows beyond their figures: why they miss, and whose side is which."""

from __future__ import annotations

UNKNOWN = "no reason known yet"
EXACT = "[decision 11](../decisions/0011-targets-that-are-missed.md)"
LEDGER = "[decision 14](../decisions/0014-targets-of-the-ledger-that-are-missed.md)"
CACHED = "[decision 18](../decisions/0018-targets-of-cached-counters-that-are-missed.md)"

REASONS = {
    "update": f"the way to the server and back, and asking for what is pending: {EXACT}",
    "collector": f"the row is held while the process waits to send COMMIT: {EXACT}",
    "cells": "two more updates in the server, and what Python makes of a moment and of tags",
    "cells-cached": "the cell is read before it is added to, as nothing may leave its range",
    "likes-again": "the value is read that is returned, and Python makes a text of who it is",
    "stream-redis": "Python: a message is taken apart, decoded by a function, and checked",
    "stream-kafka": "the fetch of librdkafka and one statement take a sixty-fifth: decision 49",
    "uniques-datasketches": "Python: bytes become numbers in a third of it, and C needs no numbers",
    "hold": f"a row, with indexes and a check, beside the total, and twice the Python: {EXACT}",
    "cold-field": f"a statement that is planned on each call: {EXACT}",
    "append": f"processor time: three indexes, and what makes it count once: {LEDGER}",
    "drop": f"the sums of the partition are merged with those of older ones: {LEDGER}",
    "cached-cache": f"without any client it is little above 4: {CACHED}",
    "cached-nothing": f"the usual increment, beside it, has a shorter script now: {CACHED}",
    "cached-many": f"the single increment, beside it, has a shorter script now: {CACHED}",
    "cached-commit": f"Python: checks, the namespace, and waiting for the commit: {CACHED}",
    "flush": f"the statement, its arguments, and what makes it land once: {CACHED}",
}

# Their subject is another way of counting, their reference the library.
TURNED = frozenset({"naive", "fixed16"})
