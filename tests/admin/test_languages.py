"""The admin in every language: whoever asks for one is answered in it."""

# ruff: noqa: RUF001 - French is written with such apostrophes.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import translation

from django_counters.admin import refusals
from django_counters.exceptions import LedgerFenced
from django_counters.kinds.approval import ask
from django_counters.kinds.subject import named
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from tests.admin.reading import Page, opened, sent

pytestmark = pytest.mark.django_db
KEY, ASKED = "stock:a", "stock:b"
LANGUAGES = ("en", "de", "fr", "es", "ja")
HEADINGS = frozenset({"title", "h1", "h2", "th", "caption", "label", "legend", "button"})
# Page by page: what of its title is ours and not Django's, and two of its headings.
EXPECTED: dict[str, dict[str, tuple[str, str, str]]] = {
    "counters": {
        "en": ("counter", "pending", "last 24 hours"),
        "de": ("Zähler", "ausstehend", "letzte 24 Stunden"),
        "fr": ("compteur", "en attente", "dernières 24 heures"),
        "es": ("contador", "pendiente", "últimas 24 horas"),
        "ja": ("カウンター", "未集計", "直近 24 時間"),
    },
    "counter": {
        "en": (KEY, "What the value is made of", "Adjusted by"),
        "de": (KEY, "Woraus der Wert besteht", "Korrigiert von"),
        "fr": (KEY, "De quoi la valeur est faite", "Corrigé par"),
        "es": (KEY, "De qué se compone el valor", "Ajustado por"),
        "ja": (KEY, "値の内訳", "調整者"),
    },
    "overview": {
        "en": ("Overview", "What has to be done", "Shards and slots"),
        "de": ("Übersicht", "Was zu tun ist", "Shards und Slots"),
        "fr": ("Vue d’ensemble", "Ce qu’il faut faire", "Shards et slots"),
        "es": ("Vista general", "Lo que hay que hacer", "Shards y slots"),
        "ja": ("概要", "対処が必要なこと", "シャードとスロット"),
    },
    "form": {
        "en": (f"Adjust {KEY}", "What is it to be, and why?", "Present value"),
        "de": (f"{KEY} korrigieren", "Was soll es sein, und warum?", "Aktueller Wert"),
        "fr": (f"Corriger {KEY}", "Que doit-il devenir, et pourquoi\xa0?", "Valeur actuelle"),
        "es": (f"Ajustar {KEY}", "¿Cómo debe quedar y por qué?", "Valor actual"),
        "ja": (f"{KEY} を調整", "いくつに、なぜ調整しますか?", "現在の値"),
    },
    "preview": {
        "en": (f"Confirm: adjust {KEY}", "What would be done", "Confirm"),
        "de": (f"Bestätigen: {KEY} korrigieren", "Was sich ändern würde", "Bestätigen"),
        "fr": (f"Confirmer\xa0: corriger {KEY}", "Ce qui serait fait", "Confirmer"),
        "es": (f"Confirmar: ajustar {KEY}", "Lo que se haría", "Confirmar"),
        "ja": (f"確認: {KEY} を調整", "実行される内容", "確定"),
    },
    "adjustments": {
        "en": ("adjustment", "adjusted by", "change"),
        "de": ("Korrektur", "korrigiert von", "Änderung"),
        "fr": ("correction", "corrigé par", "variation"),
        "es": ("ajuste", "ajustado por", "variación"),
        "ja": ("調整", "調整者", "増減"),
    },
    "adjustment": {
        "en": ("adjustment", "reason", "digest"),
        "de": ("Korrektur", "Grund", "Hashwert"),
        "fr": ("correction", "motif", "condensat"),
        "es": ("ajuste", "motivo", "resumen"),
        "ja": ("調整", "理由", "ダイジェスト"),
    },
    "requests": {
        "en": ("request for an adjustment", "asked by", "wanted"),
        "de": ("Korrekturantrag", "beantragt von", "gewünscht"),
        "fr": ("demande de correction", "demandé par", "souhaité"),
        "es": ("solicitud de ajuste", "solicitado por", "solicitado"),
        "ja": ("調整申請", "申請者", "申請内容"),
    },
    "request": {
        "en": ("request for an adjustment", "Decision", "Approve"),
        "de": ("Korrekturantrag", "Entscheidung", "Genehmigen"),
        "fr": ("demande de correction", "Décision", "Approuver"),
        "es": ("solicitud de ajuste", "Decisión", "Aprobar"),
        "ja": ("調整申請", "決定", "承認"),
    },
    "incidents": {
        "en": ("counter incident", "found at", "subject"),
        "de": ("Zählervorfall", "gefunden am", "Gegenstand"),
        "fr": ("incident de compteur", "constaté le", "objet"),
        "es": ("incidente de contador", "detectado el", "objeto"),
        "ja": ("カウンターのインシデント", "検出日時", "対象"),
    },
    "incident": {
        "en": ("counter incident", "kind", "detail"),
        "de": ("Zählervorfall", "Art", "Einzelheiten"),
        "fr": ("incident de compteur", "type", "détail"),
        "es": ("incidente de contador", "tipo", "detalle"),
        "ja": ("カウンターのインシデント", "種類", "詳細"),
    },
}
ADJUSTED = {
    "en": f"{KEY} was adjusted from 40 to 55",
    "de": f"{KEY} wurde von 40 auf 55 korrigiert",
    "fr": f"{KEY} a été corrigé de 40 à 55",
    "es": f"{KEY} se ajustó de 40 a 55",
    "ja": f"{KEY} を 40 から 55 に調整しました",
}
BELOW = {
    "en": "The value may not fall below its floor, 0.",
    "de": "Der Wert darf nicht unter seine Untergrenze 0 fallen.",
    "fr": "La valeur ne peut pas descendre sous son plancher, 0.",
    "es": "El valor no puede bajar de su límite inferior, 0.",
    "ja": "値は下限 0 を下回ることができません。",
}
each_language = pytest.mark.parametrize("language", LANGUAGES)


class Headings(HTMLParser):
    """What stands in the headings of a page, and in what it is written for a browser."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.language = ""
        self.found: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "html":
            self.language = dict(attrs).get("lang") or ""
        if tag in HEADINGS:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and data.strip():
            self.found.setdefault(self._open[-1], []).append(data.strip())

    def all_but_the_title(self) -> set[str]:
        texts = (text for tag, found in self.found.items() if tag != "title" for text in found)
        return {text.rstrip(" \xa0:").casefold() for text in texts}


@pytest.fixture(autouse=True)
def languages(settings: Any) -> Iterator[None]:
    """As in a project that asks browsers which language they want."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    with (
        translation.override("en"),
        override_counters(stock={"FLOOR": 0, "APPROVE_ABOVE": 100}),
    ):
        yield


@pytest.fixture
def speaking(root: Client) -> Callable[[str], Client]:
    """Somebody who may do everything, with a browser in some language."""

    def in_language(language: str) -> Client:
        root.defaults["HTTP_ACCEPT_LANGUAGE"] = language
        return root

    return in_language


def address(name: str, *args: object, query: str = "") -> str:
    return reverse(f"admin:django_counters_{name}", args=args) + query


def adjust_address() -> str:
    return address("adjust", query=f"?key={quote(KEY).replace('_3A', '%3A')}")


def sent_form(client: Client, step: str, how: str, number: int) -> Any:
    form = opened(client, adjust_address()).form("token")
    answers = {"how": how, "number": str(number), "reason": "counted by hand", "step": step}
    return client.post(adjust_address(), {**form.fields, **answers})


def page_of(client: Client, name: str) -> Page:
    """One of the pages, with something in it."""
    Counter.objects.increment_many({KEY: 40, ASKED: 40})
    if name == "preview":
        return sent(sent_form(client, "preview", "to", 55))
    made: dict[str, Callable[[], Any]] = {
        "counter": lambda: adjusted().key,
        "adjustment": lambda: adjusted().pk,
        "request": lambda: asked().pk,
        "incident": lambda: CounterIncident.objects.create(kind="audit", subject="7").pk,
    }
    addresses = {
        "counters": "counter_changelist",
        "counter": "counter_change",
        "overview": "overview",
        "adjustments": "counteradjustment_changelist",
        "adjustment": "counteradjustment_change",
        "requests": "adjustmentrequest_changelist",
        "request": "adjustmentrequest_change",
        "incidents": "counterincident_changelist",
        "incident": "counterincident_change",
    }
    if name == "form":
        return opened(client, adjust_address())
    if name in made:
        return opened(client, address(addresses[name], quote(made[name]())))
    if name.endswith("s"):
        adjusted()
        asked()
        made["incident"]()
    return opened(client, address(addresses[name]))


def adjusted() -> Any:
    return Counter.objects.adjust(KEY, by=-1, reason="a mistake", actor="clerk")


def asked() -> Any:
    return ask(named(ASKED), to=500, expected=40, reason="a stocktake", actor="clerk")


@pytest.mark.parametrize("name", EXPECTED)
@each_language
def test_a_page_is_in_the_language_of_who_opens_it(
    speaking: Callable[[str], Client], language: str, name: str
) -> None:
    found = Headings(page_of(speaking(language), name).html)

    title, *headings = EXPECTED[name][language]
    assert found.language.partition("-")[0] == language
    assert title in found.found["title"][0]
    assert {heading.casefold() for heading in headings} <= found.all_but_the_title()


@each_language
def test_what_was_done_is_said_in_it(speaking: Callable[[str], Client], language: str) -> None:
    Counter.objects.increment(KEY, 40)

    response = sent_form(speaking(language), "confirm", "to", 55)

    (message,) = get_messages(response.wsgi_request)
    assert ADJUSTED[language] in str(message)


@each_language
def test_what_is_refused_is_said_in_it(speaking: Callable[[str], Client], language: str) -> None:
    Counter.objects.increment(KEY, 40)

    page = sent(sent_form(speaking(language), "preview", "by", -41))

    assert BELOW[language] in page.html


@pytest.mark.parametrize("kind", refusals._SENT, ids=lambda kind: kind.__name__)
def test_a_sentence_names_only_what_its_error_knows(kind: type[Any]) -> None:
    named_in_it = re.findall(r"%\((\w+)\)s", str(refusals._SENT[kind]))

    assert set(named_in_it) <= set(kind.__annotations__)


def test_a_ledger_that_takes_nothing_is_told_in_the_language() -> None:
    found = set()
    for language in LANGUAGES:
        with translation.override(language):
            found.add(refusals.said(LedgerFenced(using="default", reason="is another")))

    assert len(found) == len(LANGUAGES)
    assert all("manage.py counters rebase" in text for text in found)
