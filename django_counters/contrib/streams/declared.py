"""The ``COUNTERS_STREAMS`` setting: which streams to count, and how. Keeps no state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.conf import settings
from django.utils.module_loading import import_string

from django_counters.contrib.streams import kafka, redis
from django_counters.errors import InvalidConfiguration
from django_counters.options import Option, did_you_mean, is_integer

LONGEST_NAME = 100
LARGEST_PAGE = 10_000

#: Makes changes of a message of its backend: keys of named counters, each with an amount.
Decode = Callable[[Any], Iterable[tuple[str, int]]]


class BackendOptions(NamedTuple):
    """The options of one backend.

    Attributes:
        options: its own options, without those of every backend.
        problems: yields the problems of options whose values are each accepted.
        parts: returns the parts, if they are declared.
    """

    options: tuple[Option, ...]
    problems: Callable[[Mapping[str, Any]], Iterator[str]]
    parts: Callable[[Mapping[str, Any]], tuple[str, ...]]


BACKENDS = {
    "redis": BackendOptions(redis.OPTIONS, redis.problems, redis.parts),
    "kafka": BackendOptions(kafka.OPTIONS, kafka.problems, kafka.parts),
}

#: The options of every backend.
OPTIONS = (
    Option(
        "BACKEND",
        None,
        " or ".join(map(repr, BACKENDS)),
        "The kind of stream.",
        lambda value: isinstance(value, str) and value in BACKENDS,
        tuple(BACKENDS),
    ),
    Option(
        "DECODE",
        None,
        "dotted path of a function",
        "Turns a message into changes: an iterable of pairs, a key and an amount. Not needed if "
        "only [buffers](../how-to/publish-to-a-stream.md) append to the stream.",
        lambda value: value is None or isinstance(value, str),
    ),
    Option(
        "PAGE",
        5000,
        f"integer from 1 to {LARGEST_PAGE}",
        "The most messages that one transaction counts.",
        lambda value: is_integer(value, 1, LARGEST_PAGE),
    ),
    Option(
        "UNSIGNED",
        "stop",
        "'stop' or 'quarantine'",
        "Whether a consumer stops before a publication of a buffer whose signature isn't valid, or "
        "quarantines it.",
        lambda value: value in ("stop", "quarantine"),
        ("stop", "quarantine"),
    ),
)


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream to count.

    Attributes:
        name: its name in the settings.
        location: where it is, for its backend.
        parts: its parts, each with an order of its own, if they are declared.
        decode: the dotted path of the function; None if buffers publish all messages.
        page: the most messages that one transaction counts.
        backend: its name.
        own: all options, for its backend.
    """

    name: str
    # It may have a password, and so may other options.
    location: str = field(repr=False)
    parts: tuple[str, ...]
    decode: str | None
    page: int
    backend: str = "redis"
    own: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def stops(self) -> bool:
        """Return whether its consumer stops at a publication without a valid signature."""
        return self.own.get("UNSIGNED") != "quarantine"

    @property
    def source(self) -> str:
        """Return its name in `CounterPosition` and incidents."""
        return f"stream {self.name}"

    @property
    def where(self) -> str:
        """Return its name in messages about the settings."""
        return _where(self.name)

    def decoder(self) -> Decode | None:
        """Return the function that decodes its messages; None if buffers publish all of them.

        Raises:
            InvalidConfiguration: it can't be imported, or isn't a function.
        """
        if self.decode is None:
            return None
        for problem in decode_problems(self.decode):
            raise InvalidConfiguration(problem=f"{self.where}: {problem}")
        function: Decode = import_string(self.decode)
        return function


def decode_problems(path: str) -> Iterator[str]:
    """Yield the problems of the path of a function."""
    try:
        if not callable(import_string(path)):
            yield f"DECODE {path!r} isn't a function."
    except ImportError as error:
        yield f"DECODE {path!r} can't be imported: {error}."


def streams() -> Mapping[str, Stream]:
    """Return all declared streams.

    Raises:
        InvalidConfiguration: the setting is wrong.
    """
    for problem in _setting_problems(_setting()):
        raise InvalidConfiguration(problem=problem)
    return {name: _stream(name, declared) for name, declared in _setting().items()}


def stream_names() -> tuple[str, ...]:
    """Return the names of all streams, even if they have errors."""
    setting = _setting()
    return tuple(map(str, setting)) if isinstance(setting, Mapping) else ()


def stream_problems(published: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the problems of the setting, each with the id of its check.

    ``published``: the names of streams that buffers publish to.
    """
    problems = list(_setting_problems(_setting()))
    for message in problems:
        yield "E039", message
    for name, declared in {} if problems else _setting().items():
        path = declared.get("DECODE")
        if path is None and name not in published:
            problem = "DECODE is missing, and no BUFFER publishes to this stream."
            yield "E039", f"{_where(name)}: {problem}"
        for message in decode_problems(path) if path is not None else ():
            yield "E039", f"{_where(name)}: {message}"


def _setting() -> Any:
    return getattr(settings, "COUNTERS_STREAMS", None) or {}


def _where(name: object) -> str:
    return f"COUNTERS_STREAMS[{name!r}]"


def _options(backend: str) -> dict[str, Option]:
    return {option.name: option for option in (*OPTIONS, *BACKENDS[backend].options)}


def _values(declared: Mapping[Any, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    return {name: declared.get(name, option.default) for name, option in options.items()}


def _stream(name: str, declared: Mapping[str, Any]) -> Stream:
    backend = declared["BACKEND"]
    own = _values(declared, _options(backend))
    parts = BACKENDS[backend].parts(own)
    return Stream(name, own["LOCATION"], parts, own["DECODE"], own["PAGE"], backend, own)


def _setting_problems(setting: object) -> Iterator[str]:
    if not isinstance(setting, Mapping):
        yield "COUNTERS_STREAMS must be a dictionary of streams."
        return
    for name, declared in setting.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or " " in name:
            yield f"{name!r} can't be a stream: 1 to {LONGEST_NAME} characters without space."
        elif isinstance(declared, Mapping):
            for problem in _problems(declared):
                yield f"{_where(name)}: {problem}"
        else:
            yield f"{_where(name)} must be a dictionary of options."


def _problems(declared: Mapping[Any, Any]) -> Iterator[str]:
    backend = declared.get("BACKEND")
    unknown = list(OPTIONS[0].problems(backend))
    if unknown:
        # The other options depend on it.
        yield from unknown
        return
    options = _options(str(backend))
    for name in declared:
        if name not in options:
            yield f"{name!r} isn't an option.{did_you_mean(name, tuple(options))}"
    values = _values(declared, options)
    wrong = [problem for name in options for problem in options[name].problems(values[name])]
    yield from wrong
    if not wrong:
        yield from BACKENDS[str(backend)].problems(values)
