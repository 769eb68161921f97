"""What the page knows of rows beyond their figures: why they miss, and whose side is which."""

from __future__ import annotations

UNKNOWN = "no reason known yet"

REASONS = {
    "update": "the way to the server and back, and asking for what is pending",
    "collector": "the row is held while the process waits to send COMMIT",
    "cells": "two more updates in the server, and what Python makes of a moment and of tags",
    "cells-cached": "the cell is read before it is added to, as nothing may leave its range",
    "likes-again": "the value is read that is returned, and Python makes a text of who it is",
    "stream-redis": "Python: a message is taken apart, decoded by a function, and checked",
    "stream-kafka": "the fetch of librdkafka and one statement take a sixty-fifth",
    "uniques-datasketches": "Python: bytes become numbers in a third of it, and C needs no numbers",
    "hold": "a row, with indexes and a check, beside the total, and twice the Python",
    "cold-field": "a statement that is planned on each call",
    "append": "processor time: three indexes, and what makes it count once",
    "drop": "the sums of the partition are merged with those of older ones",
    "cached-cache": "without any client it is little above 4",
    "cached-nothing": "the usual increment, beside it, has a shorter script now",
    "cached-many": "the single increment, beside it, has a shorter script now",
    "cached-commit": "Python: checks, the namespace, and waiting for the commit",
    "flush": "the statement, its arguments, and what makes it land once",
}

# Their subject is another way of counting, their reference the library.
TURNED = frozenset({"naive", "fixed16"})
