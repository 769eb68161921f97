"""Reads ``curl`` lines as a shell would, as far as the documentation uses it, and sends them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from http import HTTPStatus
from string import Template
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.http import HttpResponse
from django.test import Client

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASSIGNED = re.compile(r"(\w+)=(.*)")
TOKEN = re.compile(r"(\w+)=\$\((curl .*?) \|.*\)")


class Step(NamedTuple):
    """A command and what it is said to print."""

    command: str
    printed: str


class Call(NamedTuple):
    """One request. ``shows``: the status and the headers are printed, too."""

    method: str
    url: str
    headers: dict[str, str]
    body: str
    shows: bool


def steps(page: str) -> Iterator[Step]:
    """The commands of all blocks; one that ends with a backslash goes on in the next line."""
    for block in CONSOLE.findall(page):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = step.splitlines()
            last = next(n for n, line in enumerate(lines) if not line.endswith("\\"))
            command = " ".join(line.removesuffix("\\") for line in lines[: last + 1])
            yield Step(command, "\n".join(lines[last + 1 :]))


class Shell:
    """Remembers variables, and sends what ``curl`` would send."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._variables: dict[str, str] = {}

    def run(self, command: str) -> str | None:
        """What a command prints; None for one that is no ``curl`` and sets no variable."""
        if found := TOKEN.fullmatch(command):
            self._variables[found[1]] = self._sent(found[2]).json()["access"]
        elif command.startswith("curl "):
            return _printed(self._sent(command), shows=self._call(command).shows)
        elif found := ASSIGNED.fullmatch(command):
            (text,) = shlex.split(found[2])
            self._variables[found[1]] = Template(text).substitute(self._variables)
        else:
            return None
        return ""

    def _call(self, command: str) -> Call:
        return call_of(Template(command).substitute(self._variables))

    def _sent(self, command: str) -> Any:
        method, url, headers, body, _ = self._call(command)
        parts = urlsplit(url)
        named: Any = {name: text for name, text in headers.items() if name != "Content-Type"}
        return self._client.generic(
            method,
            f"{parts.path}?{parts.query}",
            body,
            content_type=headers.get("Content-Type", ""),
            headers=named,
        )


def call_of(command: str) -> Call:
    """What ``curl`` would send."""
    words = iter(shlex.split(command)[1:])
    method, url, body, shows = "", "", "", False
    headers: dict[str, str] = {}
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, text = next(words).partition(": ")
            headers[name] = text
        elif word == "-d":
            body = next(words)
        elif word in ("-s", "-i", "-si"):
            shows = shows or "i" in word
        else:
            url = word
    return Call(method or ("POST" if body else "GET"), url, headers, body, shows)


def _printed(answer: HttpResponse, *, shows: bool) -> str:
    body = answer.content.decode()
    if not shows:
        return body
    status = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}"
    head = "\n".join([status, *(f"{name}: {text}" for name, text in answer.headers.items())])
    return f"{head}\n\n{body}"
