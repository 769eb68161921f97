"""What is declared wrongly is found by a check, and its text leads to the mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from django.core.checks import CheckMessage, Tags, run_checks
from django.db import models
from django.db.models import Value
from django.test import override_settings
from django.test.utils import isolate_apps
from django_redis.cache import RedisCache as DjangoRedisCache  # type: ignore[import-untyped]

from django_counters import CounterField
from django_counters.checks import check_caches
from django_counters.conf import problems
from django_counters.errors import InvalidConfiguration, RecordMissing, UnsavedInstance
from django_counters.models import Counter
from django_counters.redis.addresses import address_of
from django_counters.testing import override_counters
from tests.testapp.models import Post


class MeasuredCache(RedisCache):
    """As django-prometheus has one."""


class MeasuredDjangoRedisCache(DjangoRedisCache):  # type: ignore[misc]
    """As django-prometheus has another one."""


class OtherCache(LocMemCache):
    """No Redis."""


def of_setting(setting: Mapping[str, Any]) -> str:
    return " ".join(f"{problem.code} {problem.message}" for problem in problems(setting))


def of_field(**options: Any) -> str:
    with isolate_apps("tests.testapp"):

        class Sample(models.Model):
            hits = CounterField(**options)

            class Meta:
                app_label = "testapp"

        found: list[CheckMessage] = Sample.check()
    return " ".join(f"{one.id} {one.msg}" for one in found if str(one.id).startswith("counters"))


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"DEFAULT": {"FLOOR": 0}}, "E002 'DEFAULT' cannot be a namespace"),
    ({"Default": {}}, "has the policy of 'default', in small letters"),
    ({"default": {}, "defaults": {}}, ""),
    ({"views": {"STRATEGY": "redis"}}, "Counting in Redis is 'cached'."),
]
FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"default": None}, "E015 The default None is no integer."),
    ({"default": "0"}, "E015 The default '0' is no integer."),
    ({"default": True}, "E015 The default True is no integer."),
    ({"db_default": 0, "floor": 1}, "E015 The db_default 0 is out of its bounds."),
    ({"db_default": Value(0), "floor": 1}, ""),
    ({"default": int}, ""),
    ({"default": 3, "db_default": 3, "floor": 1}, ""),
    ({"strategy": "redis"}, "Counting in Redis is 'cached'."),
]


@pytest.mark.parametrize(("setting", "told"), SETTINGS)
def test_a_setting(setting: dict[str, Any], told: str) -> None:
    assert told in of_setting(setting)
    assert told or not of_setting(setting)


@pytest.mark.parametrize(("options", "told"), FIELDS)
def test_a_field(options: dict[str, Any], told: str) -> None:
    assert told in of_field(**options)
    assert told or not of_field(**options)


def test_a_cache_that_is_made_from_one_that_counts() -> None:
    location = {"LOCATION": "redis://there/3"}
    caches = {
        name: {"BACKEND": f"{__name__}.{name}", **location}
        for name in ("MeasuredCache", "MeasuredDjangoRedisCache", "OtherCache")
    }
    counters = {"views": {"STRATEGY": "cached", "CACHE": "OtherCache"}}
    with override_settings(CACHES={**caches, "default": caches["OtherCache"]}, COUNTERS=counters):
        for name in ("MeasuredCache", "MeasuredDjangoRedisCache"):
            assert str(address_of(name).nodes[0]) == "there:6379"
        told = {str(one.msg) for one in check_caches()}
    assert any("COUNTERS['views'] cannot be counted here" in one for one in told), told
    assert any("testapp.Article.reads" in one for one in told), told


def test_commands_need_no_redis_but_a_deployment_does() -> None:
    caches = {**settings.CACHES, "default": {"BACKEND": f"{__name__}.OtherCache"}}
    with override_settings(CACHES=caches), override_counters(views={"STRATEGY": "cached"}):
        found = [
            [one.id for one in run_checks(tags=[Tags.caches], include_deployment_checks=deploy)]
            for deploy in (False, True)
        ]
        with pytest.raises(InvalidConfiguration, match="is not a Redis"):
            Counter.objects.increment("views:a")
    assert found[0] == ["counters.W016"]
    assert "counters.E021" in found[1]


@pytest.mark.django_db
def test_a_read_is_not_told_that_it_cannot_count() -> None:
    post = Post.objects.create()
    Post.objects.all().delete()
    with pytest.raises(RecordMissing, match="has no row in the database") as caught:
        post.views.read()
    assert "cannot count" not in str(caught.value)
    with pytest.raises(UnsavedInstance, match="has no row in the database yet"):
        Post().views.read()
    assert Counter.objects.value("none") == 0
