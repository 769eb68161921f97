"""What regions say to each other over HTTP, as JSON. All that comes in is checked, part by part."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django_counters.contrib.regions.labels import Label
from django_counters.contrib.regions.marks import Mark, Marks
from django_counters.contrib.regions.models import REGION_LENGTH
from django_counters.contrib.regions.sql import Page
from django_counters.tables.position import POSITION_LENGTH

# Halves of pairs of UTF-16, which JSON can have and a database cannot.
_HALVES = re.compile("[\ud800-\udfff]")
_LARGEST = 2**63 - 1
_LAST_INCARNATION = 2**31 - 1
Checked = TypeVar("Checked")


class Malformed(ValueError):
    """A message has not the parts that it should have. The text says which."""


def packed(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def unpacked(body: bytes) -> dict[str, Any]:
    """The message in bytes.

    Raises:
        Malformed: it is none.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Malformed("it is no JSON") from None
    return _typed(found, dict, "an object")


def text(value: object, most: int = POSITION_LENGTH) -> str:
    """A text that a database can keep."""
    found = _typed(value, str, "a text")
    if len(found) > most or "\0" in found or _HALVES.search(found):
        raise Malformed(f"a text of up to {most} characters is missing")
    return found


def number(value: object, low: int = 0, high: int = _LARGEST) -> int:
    """A whole number between two others."""
    found = _typed(value, int, "a number")
    if found is True or found is False or not low <= found <= high:
        raise Malformed(f"a number from {low} to {high} is missing")
    return found


def incarnation(value: object) -> int:
    """The number of an incarnation."""
    return number(value, 1, _LAST_INCARNATION)


def region(value: object) -> str:
    """The name of a region."""
    return text(value, REGION_LENGTH)


def marks_out(marks: Marks) -> list[object]:
    """How far incarnations are."""
    return [[number, *mark] for number, mark in marks.items()]


def marks_in(value: object) -> Marks:
    """The same, checked."""
    return {
        incarnation(one): Mark(number(position), number(seen), text(timeline))
        for one, position, seen, timeline in _rows(value, 4)
    }


def homes_in(value: object) -> dict[str, Marks]:
    """The marks of several regions."""
    return {region(name): marks_in(marks) for name, marks in _rows(value, 2)}


def labels_in(value: object) -> list[Label]:
    """Which labels are to be changed."""
    return [
        Label(incarnation(one), text(before), text(after)) for one, before, after in _rows(value, 3)
    ]


def page_out(page: Page | None) -> dict[str, object] | None:
    """Some entries."""
    return page and page._asdict()


def page_in(value: object, since: int) -> Page | None:
    """The same: entries after a version, so that repeated questions come to an end.

    A key may be any text: one that is none must not keep the others from being copied.
    """
    if value is None:
        return None
    found = _typed(value, dict, "an object")
    entries = [
        (_typed(key, str, "a key"), number(amount, -_LARGEST - 1), number(version, since + 1))
        for key, amount, version in _rows(found.get("entries"), 3)
    ]
    if not entries:
        raise Malformed("a page has no entries")
    page = Page(entries, number(found.get("clock")), text(found.get("life")))
    if page.clock < page.last:
        raise Malformed("a page is ahead of its clock")
    return page


def moment_in(value: object) -> datetime | None:
    """A moment, with its zone."""
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
    """How a request is signed."""
    return _signature(secret, b"request", body)


def answer_signature(secret: str, request: str, body: bytes) -> str:
    """How an answer is signed; ``request``: the signature of the request."""
    return _signature(secret, b"answer", request.encode() + body)


def is_same(given: str, expected: str) -> bool:
    """Whether a signature is the one that it should be. How long it takes does not tell."""
    return hmac.compare_digest(given.encode(), expected.encode())


def secret_of(given: str, body: bytes, secrets: Sequence[str]) -> str | None:
    """The secret that a request was signed with; None where it is none of these."""
    for secret in secrets:
        if is_same(given, request_signature(secret, body)):
            return secret
    return None


def _signature(secret: str, kind: bytes, signed: bytes) -> str:
    # The end of the kind and the beginning of the signed text are unambiguous: kinds have no line
    # ends.
    return hmac.digest(secret.encode(), b"counters " + kind + b"\n" + signed, "sha256").hex()
