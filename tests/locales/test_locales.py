"""Every message is translated, with the same placeholders, and what is compiled is the same."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.utils import translation

from tests.locales.catalogues import (
    LANGUAGES,
    OF_DJANGO,
    catalogue,
    compiled,
    first_of,
    is_translated,
    messages,
    path_of,
    template,
    updated,
    written,
)

PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd%]|\{\w*\}")
each_language = pytest.mark.parametrize("language", LANGUAGES)


def forms(text: Any) -> tuple[str, ...]:
    return tuple(text) if isinstance(text, list | tuple) else (text,)


def read(path: Path) -> gettext.GNUTranslations:
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)


def said_by(found: gettext.GNUTranslations, message: Any) -> str:
    """What a compiled catalogue makes of a message; the message itself if it does not have it."""
    first = forms(message.id)[0]
    return found.pgettext(message.context, first) if message.context else found.gettext(first)


def of_django(language: str) -> Iterator[gettext.GNUTranslations]:
    """The catalogues of Django and of its apps."""
    root = Path(django.__file__).parent
    yield from map(read, sorted(root.glob(f"**/locale/{language}/LC_MESSAGES/django.mo")))


@each_language
def test_every_message_is_translated(language: str) -> None:
    present = catalogue(language)
    wanted = [message for message in template() if message.id]

    missing = []
    for message in wanted:
        found = present.get(message.id, message.context)
        if found is None or found.fuzzy or not is_translated(found):
            missing.append(message.id)

    assert len(wanted) > 100
    assert not missing, "run python -m tests.locales and translate what it names"


@each_language
def test_the_files_are_as_they_are_written_any_day(language: str) -> None:
    found = updated(language)

    assert path_of(language).read_bytes() == written(found), "run python -m tests.locales"
    assert path_of(language, "mo").read_bytes() == compiled(found), "run python -m tests.locales"


@each_language
def test_placeholders_are_those_of_the_message(language: str) -> None:
    wrong = []
    for message in catalogue(language):
        if not message.id:
            continue
        wanted = {frozenset(PLACEHOLDER.findall(form)) for form in forms(message.id)}
        found = forms(message.string)
        wrong += [f for f in found if frozenset(PLACEHOLDER.findall(f)) not in wanted]

    assert wrong == []


@each_language
def test_no_message_of_django_gets_another_meaning(language: str) -> None:
    # The catalogues of all apps of a project are one. A message that is there already needs a
    # context here, or the same translation.
    changed = []
    for theirs in of_django(language):
        for message in catalogue(language):
            said = said_by(theirs, message) if message.id else ""
            if said not in ("", forms(message.id)[0], *forms(message.string)):
                changed.append((message.id, said))

    assert changed == []


def test_django_translates_what_is_left_to_it() -> None:
    names = {first_of(found) for found in messages()}

    assert not names & OF_DJANGO
    for language in ("de", "fr", "ja"):
        with translation.override(language):
            # Before Python 3.11.5, gettext() doesn't find a message that has a plural.
            assert not [
                text
                for text in OF_DJANGO
                if text == translation.gettext(text) == translation.ngettext(text, "", 1)
            ]
