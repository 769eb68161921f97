"""The ``COUNTERS_STREAMS`` setting: which streams are counted, and how. Keeps no state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from django_counters.exceptions import InvalidConfiguration
from django_counters.options import Option, did_you_mean, is_integer
from django_counters.stores.redis.addresses import address_of
from django_counters.stores.redis.streams import Message

__all__ = ["Decode", "Message", "Stream", "stream_problems", "streams"]

LONGEST_NAME = 100
LARGEST_PAGE = 10_000
BACKENDS = ("redis",)


#: Makes changes of a message: keys of named counters, and by how much they change.
Decode = Callable[[Message], Iterable[tuple[str, int]]]


def _is_stream(value: object) -> bool:
    names = [value] if isinstance(value, str) else value
    return (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) and 0 < len(name) <= 255 for name in names)
        and 0 < len(names) == len(set(names))
    )


OPTIONS = (
    Option(
        "BACKEND",
        None,
        "'redis'",
        "What the stream is.",
        lambda value: value in BACKENDS,
        BACKENDS,
    ),
    Option(
        "LOCATION",
        "default",
        "alias of CACHES, or URL",
        "The Redis, as `CACHE` of [cached counters](#strategies) names it.",
        lambda value: isinstance(value, str),
    ),
    Option(
        "STREAM",
        None,
        "key of a stream, or a list of them",
        "What is read. Each stream is a part: as many consumers work at once as there are parts.",
        _is_stream,
    ),
    Option(
        "DECODE",
        None,
        "dotted path of a function",
        "Makes changes of a message: an iterable of pairs, a key and by how much it changes.",
        lambda value: isinstance(value, str),
    ),
    Option(
        "PAGE",
        5000,
        f"integer from 1 to {LARGEST_PAGE}",
        "How many messages one transaction counts at most.",
        lambda value: is_integer(value, 1, LARGEST_PAGE),
    ),
)
_BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that is counted. ``source``: what its positions are of, in the database."""

    name: str
    location: str
    parts: tuple[str, ...]
    decode: str
    page: int

    @property
    def source(self) -> str:
        """What `CounterPosition` and incidents call it."""
        return f"stream {self.name}"

    def decoder(self) -> Decode:
        """The function that makes changes of its messages.

        Raises:
            InvalidConfiguration: it cannot be imported, or is none.
        """
        for problem in _decode_problems(self.decode):
            raise InvalidConfiguration(problem=f"{_where(self.name)}: {problem}")
        found: Decode = import_string(self.decode)
        return found


def streams() -> Mapping[str, Stream]:
    """All streams that are declared.

    Raises:
        InvalidConfiguration: the setting is wrong.
    """
    for problem in _setting_problems(_setting()):
        raise InvalidConfiguration(problem=problem)
    return {name: _stream(name, declared) for name, declared in _setting().items()}


def stream_problems() -> Iterator[tuple[str, str]]:
    """Say what is wrong with the setting; the id of the check comes first."""
    found = list(_setting_problems(_setting()))
    for message in found:
        yield "E039", message
    for name, declared in {} if found else _setting().items():
        for message in _decode_problems(declared["DECODE"]):
            yield "E039", f"{_where(name)}: {message}"


def _setting() -> Any:
    return getattr(settings, "COUNTERS_STREAMS", None) or {}


def _where(name: object) -> str:
    return f"COUNTERS_STREAMS[{name!r}]"


def _stream(name: str, declared: Mapping[str, Any]) -> Stream:
    given = {option.name: declared.get(option.name, option.default) for option in OPTIONS}
    parts = [given["STREAM"]] if isinstance(given["STREAM"], str) else given["STREAM"]
    return Stream(name, given["LOCATION"], tuple(parts), given["DECODE"], given["PAGE"])


def _setting_problems(setting: object) -> Iterator[str]:
    if not isinstance(setting, Mapping):
        yield "COUNTERS_STREAMS must be a dictionary of streams."
        return
    for name, declared in setting.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or " " in name:
            yield f"{name!r} cannot be a stream: 1 to {LONGEST_NAME} characters without space."
        elif isinstance(declared, Mapping):
            for problem in _problems(declared):
                yield f"{_where(name)}: {problem}"
        else:
            yield f"{_where(name)} must be a dictionary of options."


def _problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    for name in declared:
        if name not in _BY_NAME:
            yield f"there is no option {name!r}.{did_you_mean(name, tuple(_BY_NAME))}"
    wrong = [one for one in OPTIONS if not one.accepts(declared.get(one.name, one.default))]
    for option in wrong:
        found = declared.get(option.name, option.default)
        yield f"{option.name} is {option.expected}, not {found!r}."
    if not wrong:
        yield from _location_problems(declared.get("LOCATION", "default"))


def _location_problems(location: str) -> Iterator[str]:
    try:
        address_of(location)
    except InvalidConfiguration as error:
        yield f"LOCATION: {error.problem}"


def _decode_problems(path: str) -> Iterator[str]:
    try:
        if not callable(import_string(path)):
            yield f"DECODE {path!r} is no function."
    except ImportError as error:
        yield f"DECODE {path!r} cannot be imported: {error}."
