"""What templates show of counters."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from babel.numbers import format_compact_decimal
from django.template import Context, Template
from django.test import override_settings
from django.utils import translation

from django_counters.errors import InvalidKey, RecordMissing
from django_counters.models import Counter, CounterShard
from django_counters.templatetags import counters
from django_counters.templatetags.counters import compact
from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture
from tests.regions.test_attribute import concert
from tests.testapp.models import Account, Article, Post, Song

NOBODY = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1/0",
    }
}
MARKUP = '<data value="{}" title="{}">{}</data>'


def shown(counted: Any, source: str = "{% counter counted %}") -> str:
    return Template("{% load counters %}" + source).render(Context({"counted": counted}))


class TestCompact:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "0"),
            (999, "999"),
            (1000, "1K"),
            (1999, "1.9K"),
            (12_050, "12K"),
            (99_999, "99.9K"),
            (123_456, "123K"),
            (999_999, "999K"),
            (12_345_678, "12.3M"),
            (4_560_000_000, "4.5B"),
            (2**63 - 1, "9223372T"),
            (-12_345_678, "-12.3M"),
            (-999, "-999"),
            (Decimal("12.50"), "12.50"),
            (Decimal("12345.99"), "12.3K"),
        ],
    )
    def test_it_never_says_more_than_there_is(self, value: Any, text: str) -> None:
        assert compact(value) == text

    @pytest.mark.parametrize("language", ["en", "de", "es", "fr", "ja"])
    def test_it_is_what_the_language_writes(self, language: str) -> None:
        for number in (digits * 10**zeros for zeros in range(13) for digits in (3, 12)):
            theirs = format_compact_decimal(number, locale=language, fraction_digits=1)
            if (language, len(str(number))) == ("es", 10):
                # Babel writes 1200 M and 12 mil M. Here it is 1,2 mil M and 12 mil M.
                continue
            with translation.override(language):
                mine = compact(number)
            # Babel sets no separators in what it does not abbreviate.
            assert (re.sub(r"\W", "", mine) if theirs.isdecimal() else mine) == theirs

    @pytest.mark.parametrize("value", [None, "", "likes", 1.5, [1]])
    def test_what_is_no_number_stays_as_it_is(self, value: Any) -> None:
        assert compact(value) is value


@pytest.mark.django_db
class TestCounter:
    def test_a_number_that_was_loaded_asks_nobody(self, django_assert_num_queries: Any) -> None:
        post = Post.objects.create(views=12_345_678)
        with django_assert_num_queries(0):
            assert shown(post.views) == MARKUP.format(12_345_678, "12,345,678", "12.3M")
        with translation.override("de"), django_assert_num_queries(0):
            assert shown(post.views, "{{ counted|compact }}") == "12,3\xa0Mio."
            expected = MARKUP.format(12_345_678, "12.345.678", "12,3\xa0Mio.")
            assert shown(post.views) == expected

    def test_an_amount(self) -> None:
        account = Account.objects.create(**{"balance": Decimal("999.50")})
        assert shown(account.balance) == MARKUP.format("999.50", "999.50", "999.50")

    def test_a_key(self) -> None:
        Counter.objects.increment("likes:post:1", 1500)
        assert shown("likes:post:1") == MARKUP.format(1500, "1,500", "1.5K")
        assert shown("likes:post:2") == MARKUP.format(0, "0", "0")
        named = "{% counter 'likes:post:1' as likes %}{{ likes }}{{ likes }}"
        assert shown(None, named) == MARKUP.format(1500, "1,500", "1.5K") * 2
        with pytest.raises(InvalidKey):
            shown("likes:\0")

    def test_a_record_that_was_not_loaded(self) -> None:
        song = Song.objects.create()
        song.plays.increment(5)
        assert shown(Song.plays.of(song.pk)) == MARKUP.format(5, "5", "5")
        with pytest.raises(RecordMissing):
            shown(Song.plays.of(song.pk + 1))

    def test_what_is_no_counter_is_shown_as_it_is_and_escaped(self) -> None:
        assert shown("", "<{% counter misspelt %}>") == "<>"
        assert shown(["<b>"]) == "[&#x27;&lt;b&gt;&#x27;]"

    def test_a_language_cannot_bring_markup(self) -> None:
        with patch.object(counters, "pgettext", lambda *_: "3:<b>"):
            expected = MARKUP.format(1500, "1,500", "1.5&lt;b&gt;")
            assert shown(1500) == expected
            assert shown(1500, "{{ counted|compact }}") == "1.5&lt;b&gt;"


@pytest.mark.django_db(transaction=True)
class TestRedis:
    def test_what_waits_there_is_shown_and_what_has_landed_while_it_is_away(
        self, cached: str
    ) -> None:
        article = Article.objects.create()
        CounterShard.objects.increment("views:a", 5)
        Counter.objects.increment("views:a", 2)
        article.reads.increment(3)
        keys = ("views:a", Article.reads.of(article.pk))
        assert [shown(one) for one in keys] == [MARKUP.format(n, n, n) for n in (7, 3)]
        with override_settings(CACHES=NOBODY):
            assert [shown(one) for one in keys] == [MARKUP.format(n, n, n) for n in (5, 0)]


@pytest.mark.django_db(databases=["default", "other"])
class TestRegions:
    def test_what_all_regions_have_counted(self) -> None:
        one = concert()()
        for region, by in ((EU, 1200), (US, 300)):
            with region.settings():
                one.likes.increment(by, using=region.using)
        exchange(EU, US)
        with EU.settings():
            assert shown(one.likes) == MARKUP.format(1500, "1,500", "1.5K")
