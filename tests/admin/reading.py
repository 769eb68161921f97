"""Pages as a browser reads them: their forms, and what a strict Content-Security-Policy forbids."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from django.contrib.messages import get_messages
from django.test import Client


@dataclass
class Form:
    """A form with what it would send."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


class Page(HTMLParser):
    """What a response shows.

    Attributes:
        forms: those that are sent by POST, but for the one that logs out.
        forbidden: what a policy of ``default-src 'self'`` would not run.
    """

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response
        self.html = response.content.decode()
        self.forms: list[Form] = []
        self.forbidden: list[str] = []
        self._open: Form | None = None
        self._text_of: tuple[str, list[str]] | None = None
        self.feed(self.html)

    def form(self, name: str) -> Form:
        """The one that sends a name."""
        (found,) = (form for form in self.forms if name in form.fields)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._judge(tag, given)
        if tag == "form":
            assert self._open is None, "a form in a form"
            self._open = Form(given.get("action", ""))
            if given.get("method") == "post" and given.get("id") != "logout-form":
                self.forms.append(self._open)
        elif tag in ("input", "textarea", "button", "select"):
            self._control(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None
        elif tag == "textarea" and self._open and self._text_of:
            name, parts = self._text_of
            # The first line break is not part of the text.
            self._open.fields[name] = "".join(parts).removeprefix("\n")
            self._text_of = None

    def handle_data(self, data: str) -> None:
        if self._text_of:
            self._text_of[1].append(data)

    def _judge(self, tag: str, given: dict[str, str]) -> None:
        inline = tag == "script" and "src" not in given
        if (inline and given.get("type") != "application/json") or tag == "style":
            self.forbidden.append(f"<{tag}>")
        self.forbidden += [
            f"<{tag} {name}>" for name in given if name == "style" or name.startswith("on")
        ]
        if given.get("href", "").lower().startswith("javascript:"):
            self.forbidden.append(f"<{tag} href>")

    def _control(self, tag: str, given: dict[str, str]) -> None:
        name, kind = given.get("name", ""), given.get("type", "text")
        if self._open is None:
            return
        if tag == "textarea":
            self._text_of = (name, [])
        elif tag == "button" or kind == "submit":
            self._open.buttons.append((name, given.get("value", "")))
            return
        elif kind not in ("radio", "checkbox") or "checked" in given:
            self._open.fields[name] = given.get("value", "on")


def opened(client: Client, url: str, **query: str) -> Page:
    """A page that has to open."""
    return sent(client.get(url, query))


def sent(response: Any) -> Page:
    """A page that a form led to, which has to be in order."""
    assert response.status_code == 200, response
    page = Page(response)
    assert not page.forbidden
    assert all("csrfmiddlewaretoken" in form.fields for form in page.forms)
    return page


def messages_of(response: Any) -> list[str]:
    """What is told on the page after this one."""
    return [str(message) for message in get_messages(response.wsgi_request)]


def html_of(client: Client, url: str, **query: Any) -> str:
    """The text of a page that has to open."""
    response = client.get(url, query)
    assert response.status_code == 200, response
    return response.content.decode()


def text_of(html: str) -> str:
    """What stands between the tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def texts(html: str, tag: str) -> list[str]:
    """The texts of the elements of a kind."""
    return [text_of(text) for text in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", html, re.S)]


def rows_of(html: str) -> list[list[str]]:
    """The text of the cells of each row."""
    rows = re.findall(r"<tr\b.*?</tr>", html, re.S)
    return [list(map(text_of, re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S))) for row in rows]
