"""What has to be translated, and the files that do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

import django_counters

PACKAGE = Path(django_counters.__file__).resolve().parent
PROJECT = "django-distributed-counters"
LANGUAGES = ("de", "fr", "es", "ja")
# Django's admin has translations of these, and ours would replace them in all of a project.
OF_DJANGO = frozenset({"All", "Error:", "Home", "Please correct the error below."})
_READ = frozenset({".html", ".py", ".txt"})
# Which argument is the message, the plural, the context.
KEYWORDS: dict[str, Any] = {
    "_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "npgettext_lazy": ((1, "c"), 2, 3),
}
# The others tell when a file was written, and by what.
_HEADERS = frozenset(
    {
        "Project-Id-Version",
        "Language",
        "Plural-Forms",
        "MIME-Version",
        "Content-Type",
        "Content-Transfer-Encoding",
    }
)


class Found(NamedTuple):
    """A message, and where it stands."""

    path: str
    message: str | tuple[str, ...]
    context: str | None


class Published(Catalog):
    """A catalogue that is written to the same bytes as long as it says the same."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        """Without those that change from day to day."""
        given = {name: value for name, value in super().mime_headers if name in _HEADERS}
        kept = {**given, "Project-Id-Version": PROJECT}
        # Each ends with its line, also the last one.
        kept["Content-Transfer-Encoding"] += "\n"
        return list(kept.items())

    @mime_headers.setter
    def mime_headers(self, value: Iterable[tuple[str, str]]) -> None:
        self._set_mime_headers(value)


@cache
def messages() -> tuple[Found, ...]:
    """Everything in the package that is to be translated here."""
    files = sorted(path for path in PACKAGE.rglob("*") if path.suffix in _READ)
    found = (each for path in files for each in _of_file(path))
    return tuple(each for each in found if first_of(each) not in OF_DJANGO)


def _of_file(path: Path) -> Iterator[Found]:
    text = path.read_text(encoding="utf-8")
    shown = str(path.relative_to(PACKAGE.parent))
    # What Django makes of a template is indented anyhow, which Python bears between brackets.
    source = text if path.suffix == ".py" else f"({templatize(text, origin=shown)}\n)"
    for _line, message, _comments, context in extract("python", BytesIO(source.encode()), KEYWORDS):
        yield Found(shown, message, context)


def first_of(found: Found) -> str:
    """A message, in the singular."""
    return found.message if isinstance(found.message, str) else found.message[0]


def path_of(language: str, suffix: str = "po") -> Path:
    """The file of a language."""
    return PACKAGE / "locale" / language / "LC_MESSAGES" / f"django.{suffix}"


def catalogue(language: str) -> Catalog:
    """What is there of a language."""
    path = path_of(language)
    if not path.exists():
        return Catalog(locale=language, charset="utf-8")
    with path.open("rb") as file:
        return read_po(file, locale=language, charset="utf-8")


def template() -> Catalog:
    """All messages, not translated."""
    found = Catalog(charset="utf-8")
    for path, message, context in messages():
        flags = ["python-brace-format"] if _has_braces(message) else []
        found.add(message, locations=[(path, None)], context=context, flags=flags)  # type: ignore[list-item]
    return found


def _has_braces(message: str | tuple[str, ...]) -> bool:
    return "{" in (message if isinstance(message, str) else "".join(message))


def updated(language: str) -> Published:
    """All messages, with the translations that are there of a language."""
    present = catalogue(language)
    found = Published(locale=language, charset="utf-8", fuzzy=False)
    found.header_comment = present.header_comment
    # Versions of Babel have different ones for some languages.
    found.mime_headers = [("Plural-Forms", present.plural_forms)]
    for message in template():
        if message.id:
            known = present.get(message.id, message.context)
            if known and known.pluralizable == message.pluralizable:
                message.string = known.string
            found[message.id] = message
    return found


def compiled(catalog: Catalog) -> bytes:
    """What Django reads."""
    file = BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def written(catalog: Catalog) -> bytes:
    """What people read and write."""
    file = BytesIO()
    write_po(file, catalog, include_lineno=False, sort_output=True, width=0)
    return file.getvalue()


def write(language: str) -> list[str]:
    """Bring the files of a language up to date; the messages that nobody has translated yet."""
    found = updated(language)
    path_of(language).parent.mkdir(parents=True, exist_ok=True)
    path_of(language).write_bytes(written(found))
    path_of(language, "mo").write_bytes(compiled(found))
    return [str(message.id) for message in found if message.id and not is_translated(message)]


def is_translated(message: Any) -> bool:
    """Whether every form of a message is there."""
    forms = message.string if isinstance(message.string, list | tuple) else (message.string,)
    return bool(forms) and all(forms)
