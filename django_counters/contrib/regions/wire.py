"""The messages of regions over HTTP, as JSON. Checks each part of an incoming message."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django_counters.contrib.regions.marks import IncarnationMark, Label, Marks
from django_counters.contrib.regions.models import REGION_LENGTH
from django_counters.contrib.regions.sql import EntryPage
from django_counters.tables.schema import POSITION_LENGTH

# Surrogates, which JSON can contain and databases can't.
_HALVES = re.compile("[\ud800-\udfff]")
_LARGEST = 2**63 - 1
_LAST_INCARNATION = 2**31 - 1
Checked = TypeVar("Checked")


class Malformed(ValueError):
    """A part of a message is missing or invalid. The text names it."""


def packed(message: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def unpacked(body: bytes) -> dict[str, Any]:
    """Return the message in bytes.

    Raises:
        Malformed: the bytes aren't a message.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("it isn't JSON") from None
    return _typed(message, dict, "an object")


def text(value: object, most: int = POSITION_LENGTH) -> str:
    """Return a text that databases can store."""
    checked = _typed(value, str, "a text")
    if len(checked) > most or "\0" in checked or _HALVES.search(checked):
        raise Malformed(f"a text of up to {most} characters is missing")
    return checked


def number(value: object, low: int = 0, high: int = _LARGEST) -> int:
    """Return an integer within bounds."""
    checked = _typed(value, int, "a number")
    if checked is True or checked is False or not low <= checked <= high:
        raise Malformed(f"a number from {low} to {high} is missing")
    return checked


def incarnation(value: object) -> int:
    """Return the number of an incarnation."""
    return number(value, 1, _LAST_INCARNATION)


def region(value: object) -> str:
    """Return the name of a region."""
    return text(value, REGION_LENGTH)


def marks_out(marks: Marks) -> list[object]:
    """Return marks as JSON."""
    return [[number, *mark] for number, mark in marks.items()]


def marks_in(value: object) -> Marks:
    """Return the marks in JSON."""
    return {
        incarnation(one): IncarnationMark(number(position), number(seen), text(timeline))
        for one, position, seen, timeline in _rows(value, 4)
    }


def homes_in(value: object) -> dict[str, Marks]:
    """Return the marks of several regions in JSON."""
    return {region(name): marks_in(marks) for name, marks in _rows(value, 2)}


def labels_in(value: object) -> list[Label]:
    """Return the changes of labels in JSON."""
    return [
        Label(incarnation(one), text(before), text(after)) for one, before, after in _rows(value, 3)
    ]


def page_out(page: EntryPage | None) -> dict[str, object] | None:
    """Return a page as JSON."""
    return page and page._asdict()


def page_in(value: object, since: int) -> EntryPage | None:
    """Return the page in JSON. All versions must be after ``since``, so that copying ends.

    A key may be any text: an invalid key must not stop the other entries.
    """
    if value is None:
        return None
    message = _typed(value, dict, "an object")
    entries = [
        (_typed(key, str, "a key"), number(amount, -_LARGEST - 1), number(version, since + 1))
        for key, amount, version in _rows(message.get("entries"), 3)
    ]
    if not entries:
        raise Malformed("a page has no entries")
    page = EntryPage(entries, number(message.get("clock")), text(message.get("life")))
    if page.clock < page.last:
        raise Malformed("a page is ahead of its clock")
    return page


def moment_in(value: object) -> datetime | None:
    """Return an aware moment."""
    try:
        moment = None if value is None else datetime.fromisoformat(text(value))
    except ValueError:
        raise Malformed("a moment is missing") from None
    if moment is not None and moment.tzinfo is None:
        raise Malformed("a moment has no zone")
    return moment


def _rows(value: object, columns: int) -> Iterable[list[Any]]:
    for row in _typed(value, list, "a list"):
        if len(_typed(row, list, "a row")) != columns:
            raise Malformed(f"a row of {columns} is missing")
        yield row


def _typed(value: object, kind: type[Checked], words: str) -> Checked:
    if not isinstance(value, kind):
        raise Malformed(f"{words} is missing")
    return value


#: The header of requests and of answers.
HEADER = "X-Counters-Signature"


def request_signature(secret: str, body: bytes) -> str:
    """Return the signature of a request."""
    return _signature(secret, b"request", body)


def answer_signature(secret: str, request: str, body: bytes) -> str:
    """Return the signature of an answer; ``request``: the signature of its request."""
    return _signature(secret, b"answer", request.encode() + body)


def is_same(signature: str, expected: str) -> bool:
    """Return whether two signatures are equal, in constant time."""
    return hmac.compare_digest(signature.encode(), expected.encode())


def secret_of(signature: str, body: bytes, secrets: Sequence[str]) -> str | None:
    """Return the secret that signed a request; None if none of these did."""
    return next((s for s in secrets if is_same(signature, request_signature(s, body))), None)


def _signature(secret: str, kind: bytes, signed: bytes) -> str:
    # A kind has no newline, so kind and text can't be mistaken for another pair.
    return hmac.digest(secret.encode(), b"counters " + kind + b"\n" + signed, "sha256").hex()
