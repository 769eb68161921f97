"""The whole run: site, load, worker, beat, check; and with accidents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_counters.models import Counter
from example_project.shop.models import Order
from example_project.tally import ORDERS
from tests.example.running import printed, url_of_the_test


@pytest.mark.postgres
def test_the_whole_run(transactional_db: None) -> None:
    found = exact_run(url_of_the_test())
    assert found["sales"][0]["sold"] > 0
    assert found["orders"]["counted"] > found["sent_again"] > 0
    assert found["likes"]["counted"] > found["liked_again"] > 0
    assert found["entries"] > 0
    assert Counter.objects.value(ORDERS) == Order.objects.count() >= found["orders"]["counted"]


@pytest.mark.slow
def test_the_whole_run_on_sqlite(tmp_path: Path) -> None:
    exact_run(f"sqlite:///{tmp_path / 'example.db'}")


def exact_run(url: str) -> dict[str, Any]:
    """Run the example for some seconds, and return what it prints."""
    found = exact_for(15, url)
    if not found["folded"]:
        # On a busy machine the worker has hardly begun when the others are done.
        found = exact_for(60, url)
    # By the worker, which beat has told to do it.
    assert found["folded"] > 0
    assert found["generations"] > 0
    return found


def exact_for(seconds: int, url: str) -> dict[str, Any]:
    found = printed(url, "--seconds", str(seconds), "--check")
    assert_exact(found)
    assert found["incidents"] == []
    return found


def assert_exact(found: dict[str, Any]) -> None:
    """Everything that was sent is counted once."""
    assert found["ok"]
    assert found["failures"] == found["drifts"] == []
    for kind in ("views", "likes", "downloads", "visits", "orders"):
        sent, counted = found[kind]["sent"], found[kind]["counted"]
        assert 0 < sent <= counted <= sent + found[kind]["unknown"]
    assert (found["flow"]["waiting"], found["flow"]["lost"]) == (0, 0)
    assert found["flow"]["written"] == found["views"]["sent"] + found["visits"]["sent"]


@pytest.mark.postgres
@pytest.mark.faults
def test_redis_the_worker_and_the_flusher_are_killed_while_it_counts(
    transactional_db: None,
) -> None:
    found = printed(url_of_the_test(), "--seconds", "20", "--check", "--chaos", own_redis=True)
    assert_exact(found)
    assert found["kills"].keys() == {"Redis", "flusher", "worker"}
    assert found["kills"]["Redis"] > 1
    assert found["turned_away"] > 0
    assert set(found["incidents"]) == {"history: default"}
