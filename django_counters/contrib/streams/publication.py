"""The message that a buffer publishes. Consumers recognize it by the name of its only field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.core.signing import Signer

from django_counters.redis.keys import cell_field, cell_in
from django_counters.tokens import moment_of
from django_counters.types import Cell, Sums, why_no_key


class Publication(NamedTuple):
    """A page of a buffer, as one message of a stream.

    Attributes:
        page: the ``hex`` of a UUIDv7, whose time is that of the page.
        using: the database that it is for: the cells have its numbers of measures.
        incarnation: the history that it is in: of one buffer in one process.
        number: its place in the history, from 1 on. No other page of the history has it.
        sums: the amounts of counters and their cells.
    """

    page: str
    using: str
    incarnation: str
    number: int
    sums: Sums[str]

    @property
    def at(self) -> datetime:
        """Return when it was sealed, by its process's clock."""
        return moment_of(UUID(self.page))

    @property
    def name(self) -> str:
        """Return its name in incidents."""
        return f"{self.incarnation} {self.number}"

    @property
    def amounts(self) -> dict[str, int]:
        """Return the amounts of the counters, without their cells."""
        return {key: by for (key, cell), by in self.sums.items() if cell is None}

    def signed_for(self, stream: str) -> str:
        """Return it as one line of ASCII, signed for a stream."""
        sums = {_field(key, cell): by for (key, cell), by in self.sums.items() if by}
        text = json.dumps({**self._asdict(), "sums": sums}, separators=(",", ":"))
        return signer(stream).sign(text)


def signer(stream: str) -> Signer:
    """Return the signer of a stream's publications, with ``SECRET_KEY``."""
    return Signer(salt=f"django_counters.stream.{stream}")


def publication_in(text: str, stream: str) -> Publication:
    """Return the publication in a message of a stream.

    Raises:
        BadSignature: this project hasn't signed it, or has signed it for another stream.
        ValueError, TypeError, LookupError, AttributeError, OverflowError: it isn't a publication.
    """
    data = json.loads(signer(stream).unsign(text))
    publication = Publication(**{**data, "sums": dict(_sums_in(data["sums"]))})
    ids = (publication.page, publication.incarnation)
    if any(UUID(text).hex != text for text in ids) or not _is_whole(publication.number, 1):
        raise ValueError(f"{publication.name} isn't a page of a buffer.")
    # Raises OverflowError if the moment is beyond the calendar.
    str(publication.at)
    return publication


def _field(key: str, cell: Cell | None) -> str:
    return key if cell is None else cell_field(cell, key)


def _sums_in(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, Cell | None], int]]:
    for field, by in data.items():
        key, cell = cell_in(field) or (field, None)
        if reason := why_no_key(key):
            raise ValueError(f"{field!r} isn't a counter: {reason}.")
        if not _is_whole(by):
            raise ValueError(f"{by!r} isn't a change of {field!r}.")
        yield (key, cell), by


def _is_whole(number: object, low: int | None = None) -> bool:
    return type(number) is int and (low is None or low <= number)
