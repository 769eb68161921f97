"""The whole run: site, load, worker, beat, check; and with accidents."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from django_counters.contrib.holds.models import CounterHold
from django_counters.models import Counter, CounterBatch
from example_project.blog.countries import cells
from example_project.blog.models import Post
from example_project.bootstrap.children import until
from example_project.shop.models import Order
from example_project.tally import ORDERS
from example_project.verify import DAYS
from tests.example.running import PATIENCE, printed, started, url_of_the_test

SOLD, GIVEN_BACK = CounterHold.State.COMMITTED, CounterHold.State.RELEASED


@pytest.mark.many_writers
def test_the_whole_run(transactional_db: None) -> None:
    """Until the worker, which beat tells what to do, has had its turns; then Ctrl-C."""
    with started(url_of_the_test(), "--seconds", "600", "--check", "--json") as process:
        until(lambda: process.poll() is not None or all_have_worked(), PATIENCE, 0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    found = json.loads(out)
    assert_worked(found)
    assert found["sales"][0]["sold"] > 0
    assert found["orders"]["counted"] > found["sent_again"] > 0
    assert_baskets(found)
    assert found["liked_again"] > 0
    assert found["likes"]["counted"] > found["taken_back"] > 0
    assert found["entries"] > 0
    assert Counter.objects.value(ORDERS) == Order.objects.count() >= found["orders"]["counted"]


@pytest.mark.many_writers
def test_it_needs_no_arguments(transactional_db: None) -> None:
    """As the README has it: until its address is printed, and then Ctrl-C."""
    with started(url_of_the_test()) as process:
        assert process.stderr
        addresses = (line for line in process.stderr if "http://" in line)
        told = next(addresses, "")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert told, err
    assert process.returncode == 0, out + err


def all_have_worked() -> bool:
    """What waited has landed, slots and entries are folded, and some came twice or late."""
    return (
        CounterBatch.objects.exists()
        and Post.objects.filter(likes__gt=0).exists()
        # One in five sends an order again.
        and Counter.objects.filter(key=ORDERS, value__gt=60).exists()
        # And some tell later of what they had read on another day.
        and len({cell.day for cell, views in cells(Post.objects.all(), DAYS).items() if views}) > 1
        and all(CounterHold.objects.filter(state=state).exists() for state in (SOLD, GIVEN_BACK))
    )


def assert_baskets(found: dict[str, Any]) -> None:
    """Some were bought and some given back; what was told of them is what the holds say."""
    assert min(found["baskets"][what] for what in ("filled", "bought", "given back")) > 0
    assert found["sales"][0]["from_baskets"] == found["sales"][0]["told"] > 0


def assert_worked(found: dict[str, Any]) -> None:
    assert_exact(found)
    assert found["incidents"] == []
    # By the worker, which beat has told to do it.
    assert found["folded"] > 0
    assert found["generations"] > 0


def assert_exact(found: dict[str, Any]) -> None:
    """Everything that was sent is counted once."""
    assert found["ok"]
    assert found["failures"] == found["drifts"] == []
    for kind in ("views", "likes", "downloads", "visits", "orders"):
        sent, counted = found[kind]["sent"], found[kind]["counted"]
        assert 0 < sent <= counted <= sent + found[kind]["unknown"]
    people = found["people_who_like"]
    assert people == found["likes"]
    views = found["views_by_country"]
    assert (views["sent"], views["counted"]) == (found["views"]["sent"], found["views"]["counted"])
    assert all(day["ok"] for day in found["days"])
    # Some told later of what they had read before.
    assert len({day["counter"].rpartition(":")[2] for day in found["days"]}) > 1
    people = found["visitors"]
    assert 0 < people["sent"] <= people["counted"] <= people["sent"] + people["unknown"]
    # A short run may end before somebody looks twice.
    assert people["counted"] <= found["visits"]["counted"]
    assert (found["flow"]["waiting"], found["flow"]["lost"]) == (0, 0)
    assert found["flow"]["written"] == found["views"]["sent"] + found["visits"]["sent"]


@pytest.mark.many_writers
@pytest.mark.faults
def test_redis_the_worker_and_the_flusher_are_killed_while_it_counts(
    transactional_db: None,
) -> None:
    found = printed(url_of_the_test(), "--seconds", "25", "--check", "--chaos", own_redis=True)
    assert_exact(found)
    assert found["kills"].keys() == {"Redis", "flusher", "worker"}
    assert found["kills"]["Redis"] > 1
    assert found["turned_away"] > 0
    assert_baskets(found)
    # For longer than a basket is held.
    assert found["baskets"]["expired"] > 0
    assert set(found["incidents"]) == {"history: default"}
