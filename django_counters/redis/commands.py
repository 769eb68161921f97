"""The commands to Redis, and its replies, as bytes and as values. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

Word = str | bytes | int


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its name on the server."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        # Redis names scripts so; it is no secret.
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False)
        object.__setattr__(self, "sha", digest.hexdigest())


class ScriptRun(NamedTuple):
    """One run of a script.

    ``keys``: all keys that it uses. In a cluster they are in one hash slot, and the first one
    decides the server.
    """

    script: Script
    keys: tuple[str, ...]
    args: tuple[Word, ...]


class ServerRefused(Exception):
    """The server answered an error.

    The command was not executed. The exception is a script that ends with an error: its earlier
    writes stay.

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
    """No answer came. ``sent``: the request may have arrived, and may have been executed."""

    def __init__(self, reason: object, *, sent: bool) -> None:
        super().__init__(str(reason).rstrip("."))
        self.sent = sent


class OnceRequest(NamedTuple):
    """A request to execute something once.

    Attributes:
        key: decides the server of a cluster; None for any.
        words: the bytes of the protocol.
        whole: makes the bytes for a server that does not know the script; None without a script.
    """

    key: str | None
    words: bytes
    whole: Callable[[], bytes] | None = None


def requested(command: ScriptRun) -> OnceRequest:
    """The request to run a script that the server should know."""
    return OnceRequest(command.keys[0], _short(command), lambda: _whole(command))


def packed(*words: Word) -> bytes:
    """A command as bytes of the protocol."""
    return b"*%d\r\n%b" % (len(words), _words(*words))


def _words(*words: Word) -> bytes:
    return b"".join(map(_word, words))


def _word(word: Word) -> bytes:
    data = word if isinstance(word, bytes) else str(word).encode(errors="surrogateescape")
    return b"$%d\r\n%b\r\n" % (len(data), data)


def _short(command: ScriptRun) -> bytes:
    script, keys, args = command
    head = _head(script.sha, keys)
    return b"*%d\r\n%b%b" % (3 + len(keys) + len(args), head, _words(*args))


# The keys of a slot are the same in each call. Keys of tokens drop out of the cache again.
@lru_cache(maxsize=1024)
def _head(sha: str, keys: tuple[str, ...]) -> bytes:
    return _words("EVALSHA", sha, len(keys), *keys)


def _whole(command: ScriptRun) -> bytes:
    script, keys, args = command
    return packed("EVAL", script.text, len(keys), *keys, *args)


def refusal(text: str) -> ServerRefused:
    """The error that the server wrote."""
    code, _, message = text.partition(" ")
    return ServerRefused(code, message)


def decoded(reply: Any) -> Any:
    """A reply with texts as str. Another program may have written bytes that are not UTF-8."""
    if isinstance(reply, bytes):
        return reply.decode(errors="surrogateescape")
    if isinstance(reply, list):
        return [decoded(part) for part in reply]
    return reply
