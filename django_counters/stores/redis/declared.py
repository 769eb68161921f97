"""What people declare of a stream in a Redis. Nothing connects here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django_counters.exceptions import InvalidConfiguration
from django_counters.options import Option
from django_counters.stores.redis.addresses import address_of


def _is_stream(value: object) -> bool:
    names = [value] if isinstance(value, str) else value
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) and 0 < len(name) <= 255 for name in names)
        and 0 < len(names) == len(set(names))
    )


OPTIONS = (
    Option(
        "LOCATION",
        "default",
        "alias of CACHES, or URL",
        "The Redis, as `CACHE` of [cached counters](#strategies) names it.",
        lambda value: isinstance(value, str),
        secret=True,
    ),
    Option(
        "STREAM",
        None,
        "key of a stream, or a list of them",
        "The streams that are read. Each is a part: as many consumers work at once as there are "
        "parts.",
        _is_stream,
    ),
)


def problems(given: Mapping[str, Any]) -> Iterator[str]:
    """The problems of options whose values are accepted, each by itself."""
    try:
        address_of(given["LOCATION"])
    except InvalidConfiguration as error:
        yield f"LOCATION: {error.problem}"


def parts(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The streams, each of which is a part."""
    declared = given["STREAM"]
    return (declared,) if isinstance(declared, str) else tuple(declared)
