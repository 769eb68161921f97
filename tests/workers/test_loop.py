"""``counters flush --loop`` in processes of its own, which end in every way."""

from __future__ import annotations

import json
import os
import resource
import signal

import pytest

from django_counters.management.work import until_asked_to_end
from example_project.bootstrap.children import Child
from tests.redis.counting import eventually
from tests.workers.running import PATIENCE, Crew, check, counting, landed, waits

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]


def loop(crew: Crew) -> Child:
    return crew.start("django", "counters", "flush", "--loop", "0.05", "--json")


def lands_more(acknowledged: int) -> bool:
    return sum(landed().values()) > acknowledged


def test_one_that_is_asked_to_end_has_landed_all_that_it_says(crew: Crew) -> None:
    looping = loop(crew)
    with counting() as acknowledged:
        assert eventually(lambda: lands_more(50), PATIENCE), "nothing lands"
    assert eventually(lambda: waits() == 0, PATIENCE)
    looping.ask()
    assert looping.wait(PATIENCE) == 0
    assert eventually(lambda: landed().items() >= dict(acknowledged).items(), PATIENCE)
    said = [json.loads(line) for line in (crew.folder / "log0").read_text().splitlines()]
    assert sum(one["generations"] for one in said) > 0
    assert not any(one["quarantined"] or one["incidents"] or one["away"] for one in said)
    check(acknowledged)


def test_a_process_with_many_descriptors_is_asked_to_end() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        with until_asked_to_end() as wait:
            assert wait(0)
            os.kill(os.getpid(), signal.SIGTERM)
            assert not wait(PATIENCE)
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
