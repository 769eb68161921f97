"""No message and no text of an object shows the password of a stream or a region."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_counters.conf import problems as namespace_problems
from django_counters.contrib.regions.declared import region_problems
from django_counters.contrib.streams.declared import Stream, stream_problems
from django_counters.contrib.streams.kafka import topic_of

SECRET = "s3cr3t"
PASSWORDS: list[dict[str, Any]] = [
    {"BACKEND": "redis", "STREAM": "a", "LOCATION": f"redis://:{SECRET}@nowhere/x"},
    {"BACKEND": "redis", "STREAM": "a", "LOCATION": [f"redis://:{SECRET}@nowhere/0"]},
    {"BACKEND": "redis", "STREAM": "a", "LOCATION": f":{SECRET}@nowhere/0"},
    {"BACKEND": "kafka", "TOPIC": "a", "LOCATION": [SECRET]},
    {"BACKEND": "kafka", "TOPIC": "a", "LOCATION": "b", "OPTIONS": [("sasl.password", SECRET)]},
]


@pytest.mark.parametrize("declared", PASSWORDS)
def test_no_message_shows_a_password(declared: dict[str, Any]) -> None:
    with override_settings(COUNTERS_STREAMS={"clicks": declared}):
        problems = [text for _, text in stream_problems(("clicks",))]
    assert problems
    assert SECRET not in str(problems)


def test_no_stream_or_topic_shows_a_password() -> None:
    own = {"TOPIC": "clicks", "OPTIONS": {"sasl.password": SECRET}}
    kafka = Stream("clicks", "broker:9092", (), None, 20, "kafka", own)
    redis = Stream("clicks", f"redis://:{SECRET}@host/0", ("clicks",), None, 20)
    assert SECRET not in repr([kafka, redis, topic_of(kafka.location, own)])


@pytest.mark.parametrize("place", [f"postgres:{SECRET}@host/db", f"https://x:{SECRET}@host/"])
def test_no_region_shows_a_password(place: str) -> None:
    with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={"us": place}):
        problems = list(region_problems(needed=True))
    assert problems
    assert SECRET not in str(problems)


def test_no_cache_shows_a_password() -> None:
    declared = {"hits": {"STRATEGY": "cached", "CACHE": [f"redis://:{SECRET}@host/0"]}}
    found = list(namespace_problems(declared))
    assert found
    assert SECRET not in str(found)
