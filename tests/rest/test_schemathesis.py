"""schemathesis asks the running server all that the schema admits, and much that it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from django.contrib.auth.models import User
from django.urls import Resolver404, resolve
from pytest_django.live_server_helper import LiveServer

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from rest_framework_simplejwt.tokens import AccessToken

from django_counters.adjustments.approval import ask
from django_counters.rest import expose
from django_counters.testing import override_counters
from django_counters.write.changes import named
from tests.rest import measured
from tests.rest.conftest import ALL, NAMED, NAMESPACES, OPEN
from tests.rest.schema import PATH
from tests.rest.test_schema import OURS
from tests.testapp.models import Article, Post, Song

pytestmark = [
    pytest.mark.many_writers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.rest.urls"),
]
MEASURED = {**measured.MEASURED, "UNIQUE": ["hour", "day"]}
CONFIGURATION = """
[dictionaries]
rows = {{ values = {rows} }}
all = {{ values = {all} }}
amounts = {{ values = [1, 9223372036854775807] }}
reasons = {{ values = ["a stocktake", "bots, found by hand"] }}
numbers = {{ values = {numbers} }}

[parameters]
"path.key" = {{ dictionary = "all", probability = 0.7 }}
"path.number" = {{ dictionary = "numbers", probability = 0.8 }}
"body.keys[*]" = {{ dictionary = "all", probability = 0.8 }}
"body.by" = {{ dictionary = "amounts", probability = 0.3 }}
"body.reason" = {{ dictionary = "reasons", probability = 0.8 }}
"body.counters[*].key" = {{ dictionary = "rows", probability = 0.8 }}

[generation]
# A text with U+0000 is refused, and no pattern of ours says so of each text.
allow-x00 = false

# Whether somebody has to be authenticated is declared for each namespace: no schema can say it.
[checks.ignored_auth]
enabled = false

# Nor that an Idempotency-Key was not used before,
[checks.positive_data_acceptance]
expected-statuses = {expected}

# that no counter is there twice, that all of them are kept in one place, which of them are
# counted by which tags and periods, which texts are cursors, or that a change is `to` or `by`.
[[operations]]
include-operation-id = {refusing}
[operations.checks.positive_data_acceptance]
expected-statuses = {expected_of_refusing}

# Few keys have a series, and few namespaces a top.
[[operations]]
include-operation-id = "counters_series"
parameters = {{ "path.key" = "signups:a" }}

[[operations]]
include-operation-id = "counters_unique"
parameters = {{ "path.key" = "signups:a" }}

[[operations]]
include-operation-id = "counters_top"
parameters = {{ "query.namespace" = "ranked" }}

[[operations]]
include-operation-id = "counters_list"
parameters = {{ "query.namespace" = "likes" }}

[[operations]]
include-operation-id = "counters_requests"
parameters = {{ "query.namespace" = "likes" }}
"""
# What a value may be at its edges is most of the requests.
FEW = ("--max-examples", "8", "--generation-deterministic", "--phases", "examples,fuzzing")
# The same requests each time, so that a change fails for what it did: others with another number.
SEED = os.environ.get("COUNTERS_FUZZ_SEED", "1")
MANY = ("--max-examples", "100", "--generation-database", "none", "--seed", SEED)
amounts = pytest.mark.parametrize(
    "amount",
    [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)],
)
REFUSING = [
    f"counters_{name}"
    for name in (
        *("increment", "decrement", "increment_many", "series", "unique", "top", "list"),
        *("requests", "adjust", "reject", "hold"),
    )
]
# Requests at random seldom name a hold of their own, or the value that an approver has to have
# seen; tests/rest/test_holds.py and test_deciding.py do.
ENDING = {"commit", "release", "extend", "approve"}
EXPECTED = ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]


def run(folder: Path, url: str, values: Mapping[str, list[Any]], *options: str) -> None:
    """Run it in a process of its own, on a server. It may find nothing."""
    configuration = folder / "schemathesis.toml"
    statuses = {"expected": EXPECTED, "expected_of_refusing": [*EXPECTED, "400"]}
    lists = {**values, **statuses, "refusing": REFUSING}
    texts = {name: json.dumps(found) for name, found in lists.items()}
    configuration.write_text(CONFIGURATION.format(**texts), encoding="utf-8")
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration)),
        *("run", str(PATH), "--url", url, "--checks", "all", "--continue-on-failure"),
        *("--report-har-path", str(folder / "har.json"), "--output-sanitize", "false"),
        *("--suppress-health-check", "all", *options),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    # Shown where the test fails.
    print(done.stdout, done.stderr)
    assert done.returncode == 0


def answered(folder: Path) -> dict[str, set[int]]:
    """With which statuses each view has answered."""
    entries = json.loads((folder / "har.json").read_text(encoding="utf-8"))["log"]["entries"]
    found: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        path = unquote(urlsplit(entry["request"]["url"]).path)
        with suppress(Resolver404):
            found[str(resolve(path).url_name)].add(entry["response"]["status"])
    return found


# A schema cannot say how much a namespace admits: as much as there are numbers.
_ANY = {"max_delta": 2**63 - 1}
_OPEN: dict[str, Any] = {**OPEN, **_ANY}


@contextmanager
def served() -> Iterator[str]:
    """A server with threads that knows the namespaces of the tests; where it is."""
    namespaces: dict[str, Any] = {
        name: {**policy, "API": {**policy["API"], **_ANY}}
        for name, policy in {
            **NAMESPACES,
            "signups": MEASURED,
            "ranked": {"TOP": ["day"], "API": ALL},
        }.items()
        if "API" in policy
    }
    with override_counters(**namespaces):
        server = LiveServer("127.0.0.1")
        try:
            yield str(server.url)
        finally:
            server.stop()


def keys_in_rows() -> list[str]:
    """Counters that one transaction can change together."""
    expose(Post, "likes", **_OPEN)
    expose(Song, "plays", **_OPEN)
    named = [key for strategy, key in NAMED.items() if strategy != "cached"]
    post, song = Post.objects.create(), Song.objects.create()
    records = [f"testapp.Post.likes:{post.pk}", f"testapp.Song.plays:{song.pk}"]
    return [
        *named,
        *records,
        "stock:a/b",
        "likes:\N{GREEK SMALL LETTER OMEGA}",
        "hits:a",
        "signups:a",
    ]


def keys_in_redis() -> list[str]:
    """Counters that are cached."""
    expose(Article, "reads", **_OPEN)
    return [NAMED["cached"], f"testapp.Article.reads:{Article.objects.create().pk}"]


def numbers() -> list[int]:
    """Requests for adjustments that somebody else has made."""
    told: dict[str, Any] = {"reason": "a stocktake", "actor": "somebody"}
    return [ask(named("likes:a"), by=number + 1, **told).pk for number in range(200)]


def authorization() -> str:
    """The header of somebody who may do everything."""
    token = AccessToken.for_user(User.objects.create_superuser("anna"))
    token.set_exp(lifetime=timedelta(hours=2))
    return f"Bearer {token}"


@amounts
def test_who_may_do_everything(namespaces: None, tmp_path: Path, amount: Sequence[str]) -> None:
    rows = keys_in_rows()
    with served() as url:
        values: dict[str, list[Any]]
        values = {"rows": rows, "all": rows + keys_in_redis(), "numbers": numbers()}
        run(tmp_path, url, values, *amount, "-H", f"Authorization: {authorization()}")
    found = answered(tmp_path)
    assert len(found) == len(OURS)
    never = {name for name, statuses in found.items() if 200 not in statuses}
    assert never <= ENDING
    # A few requests may all name counters that are there; `exact` is the same view.
    refused = {name for name, statuses in found.items() if statuses & {400, 404, 409}}
    assert set(found) - refused <= {"read"}
