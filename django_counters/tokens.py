"""Tokens: what makes a repeated call count once. Values only; where they are kept says the store.

A UUIDv7 (RFC 9562, section 5.7) carries its own time in milliseconds, so it can be refused when it
is too old to be known. Any other text is a token as well, and is remembered for as long.
"""

from __future__ import annotations

import hashlib
import os
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django_counters.errors import InvalidToken, TokenExpired

# The clocks of those who make tokens may be ahead by so much.
AHEAD = timedelta(hours=1)

TOKEN_LENGTH = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Years beyond 9999 cannot be a date.
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
# Without its dashes a UUID may be any digest: one in sixty of those would be of version 7.
_UUID = re.compile(
    r"(?:urn:uuid:)?\{?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}?", re.IGNORECASE
)


class Token(NamedTuple):
    """A text that names one change, within a scope (a user, a route) that keeps others apart.

    Attributes:
        text: 1 to 255 characters.
        scope: tokens of different scopes have nothing to do with each other.
    """

    text: str
    scope: str = ""

    @property
    def uuid(self) -> UUID | None:
        """The UUIDv7 that the text is. Within a scope a text is nothing but a text."""
        if self.scope or len(self.text) != 36:
            return None
        try:
            found = UUID(self.text)
        except ValueError:
            return None
        if found.version != 7 or str(found) != self.text.lower():
            return None
        # One that is beyond the calendar has no time to go by.
        return found if milliseconds_of(found) <= _LAST else None

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for scope and text."""
        found = self.uuid
        text = str(found) if found else self.text
        return hashlib.sha256(f"{len(self.scope)}:{self.scope}{text}".encode()).digest()


def check_token(token: object) -> Token:
    """Return ``token`` if it is one. A UUID is the same token however it is spelt with its dashes.

    Raises:
        InvalidToken: it is not, with the reason.
    """
    if isinstance(token, UUID):
        token = Token(str(token))
    elif isinstance(token, str):
        found = _UUID.fullmatch(token)
        token = Token(found[1].lower() if found else token)
    elif not isinstance(token, Token):
        reason = f"it is a {type(token).__name__}, not a string or a UUID"
        raise InvalidToken(token=token, reason=reason)
    for part in token:
        problem = _why_no_text(part)
        if problem:
            raise InvalidToken(token=part, reason=problem)
    if not token.text:
        raise InvalidToken(token=token.text, reason="it is empty")
    return token


def _why_no_text(part: object) -> str | None:
    if not isinstance(part, str):
        return f"it is a {type(part).__name__}, not a string"
    if len(part) > TOKEN_LENGTH:
        return f"it has {len(part)} characters, {TOKEN_LENGTH} are allowed"
    try:
        part.encode()
    except UnicodeEncodeError:
        return "it contains half of a surrogate pair"
    return None


def mint(moment: datetime) -> UUID:
    """A new UUIDv7 of a moment."""
    return _uuid7(moment, int.from_bytes(os.urandom(10)))


def _uuid7(moment: datetime, chance: int) -> UUID:
    number = (moment - _EPOCH) // _MILLISECOND << 80 | chance
    number = number & ~(0xF000 << 64) | (0x7000 << 64)
    return UUID(int=number & ~(0xC000 << 48) | (0x8000 << 48))


def milliseconds_of(token: UUID) -> int:
    """The time that a UUIDv7 carries, since 1970."""
    return token.int >> 80


def moment_of(token: UUID) -> datetime:
    """The time that a UUIDv7 carries."""
    return _EPOCH + milliseconds_of(token) * _MILLISECOND


def refuse_beyond(token: UUID, now: datetime, behind: timedelta, ahead: timedelta) -> None:
    """Refuse a token of which the moment is too far behind or ahead.

    Raises:
        TokenExpired: it is.
    """
    moment = moment_of(token)
    if not now - behind < moment < now + ahead:
        raise TokenExpired(token=str(token), created_at=moment)


def optional_token(token: object) -> Token | None:
    """The token of a call that may have none; see `check_token`."""
    return None if token is None else check_token(token)


def token_of(text: str, moment: datetime) -> UUID:
    """A UUIDv7 for a text and a moment: the same for the same, on every machine.

    For events that have a time and an identity, but no token: a line of a log, a message of a
    queue. Texts that differ have different tokens, as far as 74 bits of SHA-256 tell them apart.

    Raises:
        InvalidToken: the moment has no time zone, or is before 1970.
    """
    if moment.tzinfo is None or moment < _EPOCH:
        raise InvalidToken(token=moment, reason="a moment since 1970, with a time zone, is needed")
    chance = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:10])
    return _uuid7(moment, chance)
