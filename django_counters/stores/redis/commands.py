"""What is said to Redis and what it says back, as bytes and as values. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from django_counters.stores.redis.scripts import Script

Word = str | bytes | int


class Command(NamedTuple):
    """One run of a script.

    ``keys``: all that it touches; in a cluster they are in one hash slot, and the first one decides
    which server is asked.
    """

    script: Script
    keys: tuple[str, ...]
    args: tuple[Word, ...]


class Refused(Exception):
    """The server answered an error.

    The command was not executed. A script that ends with an error is the exception: what it wrote
    before stays.

    Attributes:
        code: the first word of the answer, such as "OOM" or "READONLY".
        message: the rest of it.
    """

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code} {self.message}".rstrip()


class Lost(Exception):
    """There is no answer. ``sent``: the request may have arrived, so it may have been executed."""

    def __init__(self, reason: object, *, sent: bool) -> None:
        super().__init__(str(reason).rstrip("."))
        self.sent = sent


class Request(NamedTuple):
    """Something to be executed once.

    Attributes:
        key: decides which server of a cluster is asked; None for any.
        words: in the form that the server reads.
        whole: makes the form for a server that does not know the script; None for no script.
    """

    key: str | None
    words: bytes
    whole: Callable[[], bytes] | None = None


def requested(command: Command) -> Request:
    """A run of a script that the server is expected to know."""
    return Request(command.keys[0], _short(command), lambda: _whole(command))


def packed(*words: Word) -> bytes:
    """A command as the protocol has it."""
    return b"*%d\r\n%b" % (len(words), _words(*words))


def _words(*words: Word) -> bytes:
    return b"".join(map(_word, words))


def _word(word: Word) -> bytes:
    data = word if isinstance(word, bytes) else str(word).encode(errors="surrogateescape")
    return b"$%d\r\n%b\r\n" % (len(data), data)


def _short(command: Command) -> bytes:
    script, keys, args = command
    head = _head(script.sha, keys)
    return b"*%d\r\n%b%b" % (3 + len(keys) + len(args), head, _words(*args))


# The keys of a slot are the same in each call; those of tokens drop out again.
@lru_cache(maxsize=1024)
def _head(sha: str, keys: tuple[str, ...]) -> bytes:
    return _words("EVALSHA", sha, len(keys), *keys)


def _whole(command: Command) -> bytes:
    script, keys, args = command
    return packed("EVAL", script.text, len(keys), *keys, *args)


def refusal(text: str) -> Refused:
    """An error as the server wrote it."""
    code, _, message = text.partition(" ")
    return Refused(code, message)


def decoded(reply: Any) -> Any:
    """A reply with its texts as str. Somebody else may have written bytes that are no UTF-8."""
    if isinstance(reply, bytes):
        return reply.decode(errors="surrogateescape")
    if isinstance(reply, list):
        return [decoded(part) for part in reply]
    return reply
