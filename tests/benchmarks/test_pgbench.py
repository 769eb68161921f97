"""What pgbench says, and what it is told."""

from __future__ import annotations

import pytest

from benchmarks.cases.statements import Way, alone, first, last
from benchmarks.pgbench import PgbenchFailed, parsed

OUTPUT = """\
pgbench (18.4)
transaction type: -
scaling factor: 1
query mode: simple
number of clients: 16
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 3642
number of failed transactions: 0 (0.000%)
latency average = 4.358 ms
initial connection time = 41.102 ms
tps = 3671.370968 (without initial connection time)
"""


def test_the_rate_is_what_pgbench_calls_it() -> None:
    sample = parsed(OUTPUT)
    assert sample.operations == 3642
    assert sample.operations / sample.seconds == pytest.approx(3671.370968)


def test_only_what_was_committed_counts() -> None:
    failed = OUTPUT.replace("processed: 3642", "processed: 3600").replace(": 0 (0", ": 42 (1")
    assert parsed(failed).operations == 3600


@pytest.mark.parametrize(
    "output", ["", OUTPUT.replace("3642", "0"), OUTPUT.partition("tps")[0]], ids=["", "none", "cut"]
)
def test_an_output_without_figures_is_an_error(output: str) -> None:
    with pytest.raises(PgbenchFailed, match="does not say"):
        parsed(output)


def test_where_a_transaction_counts() -> None:
    way = Way("hot", "SELECT 1;", lambda: 0)
    assert alone(way).splitlines() == ["SELECT 1;"]
    assert first(way).splitlines() == ["BEGIN;", "SELECT 1;", r"\sleep 2 ms", "COMMIT;"]
    assert last(way).splitlines() == ["BEGIN;", r"\sleep 2 ms", "SELECT 1;", "COMMIT;"]
