"""A small HTTP client that keeps cookies and sends beacons, as a browser does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.cookies import SimpleCookie
from typing import NamedTuple
from urllib.parse import quote, urlencode

from example_project.countries import COUNTRY_HEADER
from example_project.people import VISITOR_COOKIE, VISITOR_HEADER, visit_of
from example_project.tally import (
    API,
    COUNTED_HEADER,
    LIKED_HEADER,
    LOAD_HEADER,
    REPLAYED_HEADER,
    Tally,
    counter_of,
    unknown,
)

NO_ANSWER = 0


@dataclass(frozen=True)
class Site:
    """Where to ask, and the name of this run of the load."""

    host: str
    port: int
    run: str


class Answer(NamedTuple):
    """What came back.

    Attributes:
        replayed: it had been done before.
        likes: by how much the likes of a post have changed, where it was about them.
        known: whether it was counted; False where nobody knows.
    """

    status: int
    body: bytes = b""
    replayed: bool = False
    known: bool = True
    likes: str = ""


class Browser:
    """One user. What is answered goes into the tally; what is not answered is a failure."""

    def __init__(self, site: Site, tally: Tally, country: str = "") -> None:
        self.country = country
        self._tally = tally
        self._run = site.run
        self._origin = f"http://{site.host}:{site.port}"
        self._connection = HTTPConnection(site.host, site.port, timeout=60)
        self._cookies: dict[str, str] = {}

    def get(self, path: str) -> int:
        """GET a page and return the status, which should be 200."""
        status = self._ask("GET", path, None, {}).status
        if status not in (200, NO_ANSWER):
            self._tally.fail(f"GET {path}: HTTP {status}")
        return status

    def post(self, path: str, form: Mapping[str, object], *, again: bool = False) -> int:
        """`send` a form, and return the status."""
        return self.send(path, form, again=again).status

    def send(self, path: str, form: Mapping[str, object], *, again: bool = False) -> Answer:
        """POST a form, with the token of the page's cookie.

        What is posted ``again`` has been counted, and must not be counted a second time.
        """
        fields = {**form, "csrfmiddlewaretoken": self._cookies.get("csrftoken", "")}
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, urlencode(fields), kind, again)

    def count(self, counter: str, who: str) -> Answer:
        """Count somebody over the API; what was counted, the caller has to note."""
        path = f"{API}counters/{quote(counter, safe=':')}/increment"
        headers = {"Origin": self._origin, "Content-Type": "application/json"}
        return self._ask("POST", path, json.dumps({"who": who}), headers)

    def becomes(self, visitor: str) -> None:
        """Be another visitor from now on."""
        self._cookies[VISITOR_COOKIE] = visitor

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: str | None,
        headers: dict[str, str],
        again: bool = False,
    ) -> Answer:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        if self.country:
            headers = {**headers, COUNTRY_HEADER: self.country}
        sent = {**headers, LOAD_HEADER: self._run, **({"Cookie": cookies} if cookies else {})}
        self._tally.add("requests")
        try:
            self._connection.request(method, path, body, sent)
            with self._connection.getresponse() as response:
                content = response.read()
                self._remember(response)
        except (OSError, HTTPException) as error:
            self._connection.close()
            self._tally.fail(f"{method} {path}: {error!r}")
            return Answer(NO_ANSWER)
        is_known = COUNTED_HEADER not in response.headers
        counter = counter_of(method, path, response.status)
        if counter and not again:
            self._tally.add(counter if is_known else unknown(counter))
            if visitor := response.headers.get(VISITOR_HEADER):
                self._tally.add(visit_of(counter, visitor, known=is_known))
        replayed, likes = REPLAYED_HEADER in response.headers, response.headers.get(LIKED_HEADER)
        return Answer(response.status, content, replayed, is_known, likes or "")

    def _remember(self, response: HTTPResponse) -> None:
        for header in response.headers.get_all("Set-Cookie") or ():
            self._cookies.update({m.key: m.value for m in SimpleCookie(header).values()})
