"""Pages as a browser reads them: their forms, and what a strict Content-Security-Policy forbids."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

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
        unlabelled: inputs that people see, and nobody says what they are.
    """

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response
        self.html = response.content.decode()
        self.forms: list[Form] = []
        self.forbidden: list[str] = []
        self.ids: list[str] = []
        self._labels: set[str] = set()
        self._inputs: list[str] = []
        self._open: Form | None = None
        self._text_of: tuple[str, list[str]] | None = None
        self.feed(self.html)

    @property
    def unlabelled(self) -> list[str]:
        return [name for name in self._inputs if name not in self._labels]

    def form(self, name: str) -> Form:
        """The one that sends a name."""
        (found,) = (form for form in self.forms if name in form.fields)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._judge(tag, given)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "label":
            self._labels.add(given.get("for", ""))
        elif tag == "form":
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
        if kind != "hidden":
            self._inputs.append(given.get("id", f"{name} without an id"))


def opened(client: Client, url: str, **query: str) -> Page:
    """A page that has to open."""
    return sent(client.get(url, query))


def sent(response: Any) -> Page:
    """A page that a form led to, which has to be in order."""
    assert response.status_code == 200, response
    page = Page(response)
    assert not page.forbidden
    assert not page.unlabelled
    assert all("csrfmiddlewaretoken" in form.fields for form in page.forms)
    assert len(page.ids) == len(set(page.ids)), "an id twice"
    return page
