"""What people say about an adjustment: texts that can be kept, and be read as they are."""

from __future__ import annotations

import unicodedata

from django_counters.exceptions import InvalidAdjustment

_LONGEST_REQUEST_ID = 128
# They turn the direction of what follows.
_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Letters and signs that nobody sees: fillers of Hangul, the empty pattern of Braille.
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def text_of(given: object, what: str, longest: int) -> str:
    """A text that a database can keep, without what stands around it.

    Raises:
        InvalidAdjustment: it is none, or a blank or long one.
    """
    text = given.strip() if isinstance(given, str) else ""
    if not text:
        raise InvalidAdjustment(problem=f"{what} is needed, as a text that is not blank")
    if len(text) > longest:
        raise InvalidAdjustment(problem=f"{what} may have {longest} characters, not {len(text)}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidAdjustment(problem=f"{what} has a character that no database keeps")
    return text


def shown(given: object, what: str, longest: int) -> str:
    """A text that looks like what it is, whatever shows it: a page, a terminal, a spreadsheet."""
    text = text_of(given, what, longest)
    for character in text:
        steers = unicodedata.category(character) == "Cc" and character not in "\t\n\r"
        if steers or character in _TURNS:
            problem = f"{what} has a character that steers how it is shown: {character!a}"
            raise InvalidAdjustment(problem=problem)
    if not any(_is_seen(character) for character in text):
        raise InvalidAdjustment(problem=f"{what} is needed, as a text that can be seen")
    return text


def _is_seen(character: str) -> bool:
    category = unicodedata.category(character)
    # What has no meaning (yet) is shown as a box.
    has_shape = category in ("Cn", "Co") or category[0] not in "CMZ"
    return has_shape and character not in _BLANK


def request_id_of(given: str) -> str:
    """What a proxy calls a request (``X-Request-ID``), if it can be kept; else nothing."""
    name = given.strip()
    return name if len(name) <= _LONGEST_REQUEST_ID and name.isprintable() else ""
