"""The admin in every language: whoever asks for one is answered in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import translation

from django_counters import errors
from django_counters.admin import readonly
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.admin.reading import opened, sent

pytestmark = pytest.mark.django_db
KEY = "stock:a"
# Of the form: a refusal, and what is said when it is done.
EXPECTED = {
    "en": ("may not fall below its floor, 0", "was adjusted from 40 to 55"),
    "de": ("nicht unter seine Untergrenze 0 fallen", "wurde von 40 auf 55 korrigiert"),
    "fr": ("descendre sous son plancher, 0", "a été corrigé de 40 à 55"),
    "es": ("bajar de su límite inferior, 0", "se ajustó de 40 a 55"),
    "ja": ("下限 0 を下回ることができません", "40 から 55 に調整しました"),
}


@pytest.fixture(autouse=True)
def languages(settings: Any) -> Iterator[None]:
    """As in a project that asks browsers which language they want."""
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    with translation.override("en"), override_counters(stock={"FLOOR": 0}):
        yield


@pytest.mark.parametrize("language", EXPECTED)
def test_a_form_is_in_the_language_of_who_opens_it(root: Client, language: str) -> None:
    root.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    url = f"{reverse('admin:django_counters_adjust')}?key=stock%3Aa"
    Counter.objects.increment(KEY, 40)
    refused, done = EXPECTED[language]
    page = opened(root, url)
    assert f'<html lang="{language}' in page.html
    form = {**page.form("token").fields, "reason": "counted by hand"}
    below = {"how": "by", "number": "-41", "step": "preview"}
    assert refused in sent(root.post(url, form | below)).html
    response = root.post(url, form | {"how": "to", "number": "55", "step": "confirm"})
    (message,) = get_messages(response.wsgi_request)
    assert done in str(message)


@pytest.mark.parametrize("kind", readonly._SENT, ids=lambda kind: kind.__name__)
def test_a_sentence_names_only_what_its_error_knows(kind: type[Any]) -> None:
    named_in_it = re.findall(r"%\((\w+)\)s", str(readonly._SENT[kind]))

    assert set(named_in_it) <= set(kind.__annotations__)


# Forms of the admin don't meet these: their input is wrong in code, or they are
# raised by reads, regions and migrations.
ELSEWHERE: set[type[errors.CounterError]] = {
    *(errors.PositionGone, errors.LandingRefused, errors.UnsupportedReading),
    *(errors.HistoryNotKept,),
    *(errors.InitialOutOfBounds, errors.InvalidActor, errors.InvalidAdjustment),
    *(errors.InvalidConfiguration, errors.InvalidDelta, errors.InvalidKey, errors.InvalidMoment),
    *(errors.InvalidPeriod, errors.InvalidTags, errors.InvalidToken),
    *(errors.UnsavedInstance, errors.UnsupportedCondition),
    errors.UnsupportedBounds,
    *(errors.UnsupportedConsistency, errors.UnsupportedHistory),
    *(errors.UnsupportedMaximum, errors.UnsupportedOption),
    *(errors.UnsupportedSeries, errors.UnsupportedToken, errors.ValueNotKnown),
}


def test_each_error_has_a_sentence_or_is_met_elsewhere() -> None:
    public = {
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.CounterError)
    } - {errors.CounterError}

    translated = {one for one in public if {*one.__mro__} & {*readonly._SENT}}
    met_elsewhere = {one for one in public if {*one.__mro__} & ELSEWHERE}

    assert translated | met_elsewhere == public
    assert not translated & met_elsewhere


@pytest.mark.parametrize(("language", "number"), [("de", "1.234.567"), ("en", "1,234,567")])
def test_thousands_stand_apart_as_the_language_writes_them(
    root: Client, language: str, number: str
) -> None:
    Counter.objects.create(key=KEY, value=1234567)
    root.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    of_counters = "admin:django_counters_counter"
    for url in (reverse(f"{of_counters}_changelist"), reverse(f"{of_counters}_change", args=[KEY])):
        assert f"{number}<" in opened(root, url).html
