"""The facts of a change beside its amount: its time, its tags and its actor."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from django.db import models

from django_counters import clock
from django_counters.errors import InvalidActor, InvalidMoment, UnsupportedSeries
from django_counters.tokens import Token

#: Values by the names of tags.
Tags = Mapping[str, str | int | None]
#: A person, a device or a session: its name or number, or a saved record that stands for it.
Who: TypeAlias = str | int | UUID | models.Model | None

WHO_LENGTH = 64
#: The length of the value of a tag, and of its name.
TAG_LENGTH = 60
MOST_TAGS = 8
# How far clocks may differ from that of this host.
AHEAD = timedelta(minutes=5)
_SMALL = 10**WHO_LENGTH // 10


class OnceOptions(TypedDict, total=False):
    """Keyword arguments of every change; `CounterManager.increment` documents them."""

    token: str | UUID | Token | None
    at: datetime | None
    tags: Tags | None
    who: Who
    using: str | None


class ShardOptions(OnceOptions, total=False):
    """Keyword arguments of a change in shards."""

    shard_key: object


class BoundOptions(OnceOptions, total=False):
    """Keyword arguments of a change of a counter field."""

    floor: int | None
    ceiling: int | None
    immediately: bool


class CountOptions(BoundOptions, ShardOptions, total=False):
    """Keyword arguments of a change of a named counter."""


class Event(NamedTuple):
    """The known details of a change.

    Attributes:
        at: when it happened; None for now.
        tags: values by the names of tags.
        who: whose it is; None where the call names none.
    """

    at: datetime | None = None
    tags: Tags | None = None
    who: Who = None

    @property
    def text(self) -> str:
        """A text that equal events share; empty if nothing is told.

        Raises:
            InvalidActor: ``who`` is no actor.
        """
        if self == PLAIN:
            return ""
        given = (self.tags or {}).items()
        tags = sorted((name, None if value is None else str(value)) for name, value in given)
        moment = self.at.astimezone(UTC) if isinstance(self.at, datetime) else self.at
        return json.dumps([tags, str(moment), None if self.who is None else actor_of(self.who)])


PLAIN = Event()


def event_of(at: datetime | None = None, tags: Tags | None = None, who: Who = None) -> Event:
    """An event; `PLAIN` itself where nothing is known, as of nearly all changes."""
    return PLAIN if at is None and tags is None and who is None else Event(at, tags, who)


def actor_of(who: object) -> str:
    """The text that stands for an actor, in one form: the same for 7 and "7", and for user 7.

    Raises:
        InvalidActor: it is no text of 1 to 64 characters, no integer, no UUID and no saved record.
    """
    if type(who) is int and abs(who) < _SMALL:
        # The common case: the primary key of a user.
        return str(who)
    given: object = who
    if isinstance(who, models.Model):
        if who._state.adding or who.pk is None:
            raise InvalidActor(who=who, reason="it is not saved")
        given = who.pk
    if isinstance(given, bool) or not isinstance(given, str | int | UUID):
        raise InvalidActor(who=who, reason=f"a {type(given).__name__} cannot name anybody")
    if isinstance(given, int) and abs(given) >= 10 * _SMALL:
        # Python makes no text of a number that is far too long.
        raise InvalidActor(who=who, reason=f"it has more than {WHO_LENGTH} digits")
    plain = str.__str__(given) if isinstance(given, str) else str(given)
    text = unicodedata.normalize("NFC", plain)
    if reason := _why_nobody(text):
        raise InvalidActor(who=who, reason=reason)
    return text


def _why_nobody(text: str) -> str:
    """Say why a text cannot name an actor; empty where it can."""
    if not text or text.isspace():
        return "it is empty"
    if len(text) > WHO_LENGTH:
        return f"it has {len(text)} characters, {WHO_LENGTH} are allowed"
    return "" if text.isprintable() else "it contains a character that cannot be printed"


def refuse_event(key: str, event: Event) -> None:
    """Refuse the facts of a change for which a counter has no rows.

    Raises:
        UnsupportedSeries: there are some.
    """
    if event != PLAIN:
        asked = "tags" if event.tags is not None else "at" if event.at is not None else "who"
        raise UnsupportedSeries(key=key, reason=f"{asked} needs periods, and it declares none")


def checked_moment(at: object, now: datetime) -> datetime:
    """The moment of a change, in UTC.

    Raises:
        InvalidMoment: it is none, or more than 5 minutes ahead.
    """
    if not isinstance(at, datetime):
        raise InvalidMoment(moment=at, reason=f"it is a {type(at).__name__}, not a datetime")
    try:
        moment = clock.meant(at).astimezone(UTC)
    except (OverflowError, ValueError) as error:
        raise InvalidMoment(moment=at, reason="it is out of the range of UTC") from error
    if moment > now + AHEAD:
        minutes = AHEAD // timedelta(minutes=1)
        raise InvalidMoment(moment=at, reason=f"it is more than {minutes} minutes ahead")
    return moment
