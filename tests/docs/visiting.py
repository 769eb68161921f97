"""Somebody at a site, who finds links by their text and fields by their labels."""

from __future__ import annotations

import re
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

PATIENCE = 30
# What is sent only where it was chosen.
CHOSEN = ("radio", "checkbox", "submit")
FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
INPUT = re.compile(r"<input\b([^>]*)>|<textarea\b([^>]*)>(.*?)</textarea>", re.DOTALL)
ATTRIBUTE = re.compile(r'([\w-]+)(?:="([^"]*)")?')

Attributes = dict[str, str]


def attributes(tag: str) -> Attributes:
    """The attributes of a tag."""
    return {name: unescape(value) for name, value in ATTRIBUTE.findall(tag)}


def shown(html: str) -> str:
    """What can be read."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def elements(html: str, name: str) -> dict[str, Attributes]:
    """By what stands in each, without a colon at the end: the attributes of the first."""
    found = re.findall(rf"<{name}\b([^>]*)>(.*?)</{name}>", html, re.DOTALL)
    return {shown(text).strip().removesuffix(":"): attributes(tag) for tag, text in reversed(found)}


class Visitor:
    """Opens pages, follows links, and sends forms. What is not answered with 200 raises.

    Attributes:
        text: all that can be read of the page that is open.
    """

    def __init__(self, base: str) -> None:
        # No proxy: the site is on this machine.
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()), ProxyHandler({}))
        self.url = base

    def open(self, url: str, data: bytes | None = None) -> None:
        """Open an address; what is relative belongs to the page that is open."""
        request = Request(urljoin(self.url, url), data, headers={"Referer": self.url})
        with self._opener.open(request, timeout=PATIENCE) as answer:
            self.url, self._html = answer.url, answer.read().decode()
        self.text = shown(self._html)
        forms = [(attributes(tag), html) for tag, html in FORM.findall(self._html)]
        posted = [html for tag, html in forms if tag.get("method") == "post"]
        # The one that logs out is in the head of the page.
        self._form = posted[-1] if posted else ""
        self._inputs = [
            {"type": "text", "value": shown(text).strip(), **attributes(tag or area)}
            for tag, area, text in INPUT.findall(self._form)
        ]

    def follow(self, text: str) -> None:
        """Follow the link with this text."""
        links = elements(self._html, "a")
        assert text in links, f"{self.url} has no link {text!r}"
        self.open(links[text]["href"])

    def fill(self, label: str, text: str) -> None:
        """Write a text into the field with a label, or choose what the text stands beside."""
        labels = elements(self._form, "label")
        fields = {field["id"]: field for field in self._inputs if "id" in field}
        assert label in self.text, f"{self.url} does not say {label!r}"
        field = fields.get(labels.get(label, {}).get("for", ""))
        if field is not None and field["type"] != "radio":
            field["value"] = text
            return
        picked = fields[labels[text]["for"]]
        for other in self._inputs:
            if other.get("name") == picked["name"]:
                other.pop("checked", None)
        picked["checked"] = ""

    def press(self, button: str) -> None:
        """Send the form by one of its buttons."""
        buttons = elements(self._form, "button")
        buttons |= {one["value"]: one for one in self._inputs if one["type"] == "submit"}
        assert button in buttons, f"{self.url} has no button {button!r}"
        sent = [one for one in self._inputs if one["type"] not in CHOSEN or "checked" in one]
        pairs = [(one.get("name", ""), one["value"]) for one in (*sent, buttons[button])]
        self.open("", urlencode(pairs).encode())
