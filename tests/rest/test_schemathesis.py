"""schemathesis asks the running server all that the schema admits, and much that it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from django.urls import Resolver404, resolve

pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from django_counters.rest.describing import OPERATIONS
from tests.rest.conftest import ORIGIN
from tests.rest.schema import PATH
from tests.rest.served import authorization, keys_in_redis, keys_in_rows, served

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.rest.urls"),
]
CONFIGURATION = """
[dictionaries]
rows = {{ values = {rows} }}
all = {{ values = {all} }}
amounts = {{ values = [1, 9223372036854775807] }}

[parameters]
"path.key" = {{ dictionary = "all", probability = 0.8 }}
"body.keys[*]" = {{ dictionary = "all", probability = 0.8 }}
"body.by" = {{ dictionary = "amounts", probability = 0.3 }}
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

# that no counter is there twice, that all of them are kept in one place, and for how much
# somebody is admitted.
[[operations]]
include-operation-id = {refusing}
[operations.checks.positive_data_acceptance]
expected-statuses = {expected_of_refusing}
"""
READS = ("read", "exact", "history", "read-many")
FEW = ("--max-examples", "20", "--generation-deterministic")
# The same requests each time, so that a change fails for what it did: others with another number.
SEED = os.environ.get("COUNTERS_FUZZ_SEED", "1")
MANY = ("--max-examples", "100", "--generation-database", "none", "--seed", SEED)
amounts = pytest.mark.parametrize(
    "amount",
    [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)],
)
EXPECTED = ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]


def run(folder: Path, url: str, values: Mapping[str, list[str]], *options: str) -> None:
    """Run it in a process of its own, on a server. It may find nothing."""
    configuration = folder / "schemathesis.toml"
    lists = {**values, "expected": EXPECTED, "expected_of_refusing": [*EXPECTED, "400"]}
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


def asked(
    folder: Path, rows: list[str], *options: str, refusing: Sequence[str] = ()
) -> dict[str, set[int]]:
    """With which statuses each view has answered."""
    refuse = ["counters_increment_many", *refusing]
    with served() as url:
        values = {"rows": rows, "all": rows + keys_in_redis(), "refusing": refuse}
        run(folder, url, values, *options)
    return answered(folder)


@amounts
def test_who_may_do_everything(namespaces: None, tmp_path: Path, amount: Sequence[str]) -> None:
    found = asked(tmp_path, keys_in_rows(), *amount, "-H", f"Authorization: {authorization()}")

    assert len(found) == len(OPERATIONS)
    assert [name for name, statuses in found.items() if 200 not in statuses] == []
    assert [name for name, statuses in found.items() if not statuses & {400, 404, 409}] == []


@amounts
def test_who_is_nobody(namespaces: None, tmp_path: Path, amount: Sequence[str]) -> None:
    options = [*amount, "--phases", "examples,fuzzing", "-H", f"Origin: {ORIGIN}"]
    # Of what it may count it asks more often: else it would not in a short run.
    rows = keys_in_rows() + ["hits:a"] * 10
    found = asked(tmp_path, rows, *options, refusing=["counters_increment"])

    assert len(found) == len(OPERATIONS)
    assert [name for name in READS if 200 not in found[name]] == []
    assert 200 in found["increment"], "a beacon"
    assert [name for name in ("decrement", "adjust") if 200 in found[name]] == []
    assert [name for name in set(found) - {"read-many"} if 401 not in found[name]] == []
