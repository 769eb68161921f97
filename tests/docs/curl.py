"""Reads ``curl`` lines as a shell would, as far as the documentation uses it, and sends them."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser
from http import HTTPStatus
from string import Template
from typing import Any
from urllib.parse import urlsplit

from django.test import Client

ASSIGNED = re.compile(r"(\w+)=(.*)")
TOKEN = re.compile(r"(\w+)=\$\((curl .*?) \|.*\)")
CURL = ArgumentParser("curl")
CURL.add_argument("-s", action="store_true")
CURL.add_argument("-i", action="store_true", help="the status and the headers are printed, too")
CURL.add_argument("-X", dest="method")
CURL.add_argument("-H", dest="headers", action="append", default=[])
CURL.add_argument("-d", dest="body", default="")
CURL.add_argument("url")


class Shell:
    """Remembers variables, and sends what ``curl`` would send."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._variables: dict[str, str] = {}

    def run(self, command: str) -> str | None:
        """What a command prints; None for one that is no ``curl`` and sets no variable."""
        if found := TOKEN.fullmatch(command):
            self._variables[found[1]] = self._sent(found[2])[0].json()["access"]
        elif command.startswith("curl "):
            answer, shows = self._sent(command)
            body: str = answer.content.decode()
            status = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}"
            head = [status, *(f"{name}: {text}" for name, text in answer.headers.items())]
            return "\n".join([*head, "", body]) if shows else body
        elif found := ASSIGNED.fullmatch(command):
            (text,) = shlex.split(found[2])
            self._variables[found[1]] = Template(text).substitute(self._variables)
        else:
            return None
        return ""

    def _sent(self, command: str) -> tuple[Any, bool]:
        """The answer, and whether all of it is printed."""
        call = CURL.parse_args(shlex.split(Template(command).substitute(self._variables))[1:])
        url, method = urlsplit(call.url), call.method or ("POST" if call.body else "GET")
        headers: Any = dict(header.split(": ", 1) for header in call.headers)
        kind = headers.pop("Content-Type", "")
        address = f"{url.path}?{url.query}"
        return self._client.generic(method, address, call.body, kind, headers=headers), call.i
