"""Somebody at a site, who finds links by their text and fields by their labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

PATIENCE = 30


@dataclass
class Field:
    """An input: what it sends, if it is sent."""

    name: str
    value: str
    kind: str
    chosen: bool


@dataclass
class Form:
    """A form with its fields by their ids, and its buttons by what stands on them."""

    fields: list[tuple[str, Field]] = field(default_factory=list)
    buttons: dict[str, tuple[str, str]] = field(default_factory=dict)


class Page(HTMLParser):
    """What a page shows.

    Attributes:
        text: all that can be read.
        links: the address of each link, by its text.
        labels: the id of each input, by what stands beside it, without a colon at the end.
        form: the form that is sent by POST, and is not the one that logs out.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.links: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.form = Form()
        self._inside = False
        self._read: list[tuple[str, dict[str, str], int]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("method") == "post" and given.get("id") != "logout-form"
        elif tag in ("a", "label", "button", "textarea"):
            self._read.append((tag, given, len(self.text)))
        elif tag == "input" and self._inside:
            self._take(given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif self._read and self._read[-1][0] == tag:
            _, given, start = self._read.pop()
            self._note(tag, given, self.text[start:].strip())

    def handle_data(self, data: str) -> None:
        self.text += data

    def _note(self, tag: str, given: dict[str, str], text: str) -> None:
        if tag == "a":
            self.links.setdefault(text, given.get("href", ""))
        elif tag == "label":
            self.labels[text.removesuffix(":")] = given.get("for", "")
        elif tag == "button" and self._inside:
            self.form.buttons[text] = (given.get("name", ""), given.get("value", ""))
        elif tag == "textarea" and self._inside:
            self._take({**given, "value": text})

    def _take(self, given: dict[str, str]) -> None:
        kind, value = given.get("type", "text"), given.get("value", "")
        if kind == "submit":
            self.form.buttons[value] = (given.get("name", ""), value)
            return
        chosen = kind not in ("radio", "checkbox") or "checked" in given
        one = Field(given.get("name", ""), value, kind, chosen)
        self.form.fields.append((given.get("id", ""), one))


class Visitor:
    """Opens pages, follows links, and sends forms. What is not answered with 200 raises."""

    def __init__(self, base: str) -> None:
        # No proxy: the site is on this machine.
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()), ProxyHandler({}))
        self.url = base
        self.page = Page("")

    def open(self, url: str, data: bytes | None = None) -> None:
        """Open an address; what is relative belongs to the page that is open."""
        request = Request(urljoin(self.url, url), data, headers={"Referer": self.url})
        with self._opener.open(request, timeout=PATIENCE) as answer:
            self.url, self.page = answer.url, Page(answer.read().decode())

    def follow(self, text: str) -> None:
        """Follow the link with this text."""
        assert text in self.page.links, f"{self.url} has no link {text!r}"
        self.open(self.page.links[text])

    def fill(self, label: str, text: str) -> None:
        """Write a text into the field with a label, or choose what the text stands beside."""
        by_id = dict(self.page.form.fields)
        one = by_id.get(self.page.labels.get(label, "?"))
        if one is not None and one.kind != "radio":
            one.value = text
            return
        assert label in self.page.text, f"{self.url} does not say {label!r}"
        picked = by_id[self.page.labels[text]]
        for other in by_id.values():
            other.chosen = other is picked if other.name == picked.name else other.chosen

    def press(self, button: str) -> None:
        """Send the form by one of its buttons."""
        form = self.page.form
        assert button in form.buttons, f"{self.url} has no button {button!r}"
        sent = [(one.name, one.value) for _, one in form.fields if one.chosen]
        self.open("", urlencode([*sent, form.buttons[button]]).encode())
