"""Parses bodies: JSON of a limited size without duplicate names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from django_counters.rest.problems import ApiError, TooLarge

# Bytes. 500 keys of 200 characters need most of it.
LARGEST = 512 * 1024


class StrictJSONParser(BaseParser):
    """Parses JSON as RFC 8259 has it. Refuses duplicate names, whose meaning is unclear."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        """The body.

        Raises:
            TooLarge: it has more than half a megabyte.
            ParseError: it is not JSON.
        """
        body = stream.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise TooLarge(LARGEST)
        try:
            found = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_number)
            if b"\\u" in body:
                # An escape may be half a character, which can neither be kept nor be answered.
                json.dumps(found, ensure_ascii=False).encode()
            return found
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is no JSON: {error}") from None


def check_carried(request: Request) -> None:
    """Refuse a body that REST framework would ignore: an ignored body is a count of one.

    Raises:
        Refused: it has no length.
        UnsupportedMediaType: it is not JSON, or compressed.
    """
    meta = request.META  # faster than ``headers``, which are built for each request
    encoding = meta.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(encoding, "The body is to be sent as it is, not compressed.")
    length = meta.get("CONTENT_LENGTH")
    if not length and meta.get("HTTP_TRANSFER_ENCODING"):
        raise ApiError(411, "length-required", "Say how long the body is, in Content-Length.")
    parser = OnlyJSON().select_parser(request, request.parsers or ())
    if length not in (None, "", "0") and parser is None:
        raise UnsupportedMediaType(str(request.content_type))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


class OnlyJSON(BaseContentNegotiation):
    """Answers in JSON, whatever the client accepts."""

    def select_parser(self, request: Request, parsers: Iterable[Any]) -> Any:
        """The parser for the type of the body, if there is one."""
        given = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == given), None)

    def select_renderer(
        self,
        request: Request,  # noqa: ARG002
        renderers: Any,
        format_suffix: str | None = None,  # noqa: ARG002
    ) -> tuple[BaseRenderer, str]:
        """The first renderer."""
        return renderers[0], renderers[0].media_type
