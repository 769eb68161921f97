"""Each page that is published is counted once: answers are lost, processes and consumers die."""

from __future__ import annotations

from collections import Counter as Tally
from functools import partial
from typing import Any

import pytest
from django.db import connection

from django_counters.models import Counter, CounterIncident
from django_counters.registry import registry
from tests.concurrency.crowd import FORKS
from tests.faults import lossy
from tests.streams.chaos import after, fates, play
from tests.streams.published import opened
from tests.streams.publishers import consumer_beside, publisher
from tests.streams.roads import ROADS
from tests.streams.test_redis_exactly_once import LEASE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.many_writers]


class Publishers:
    """Processes that publish. They start one by one; every second one is killed."""

    def __init__(self, declared: dict[str, Any]) -> None:
        self._declared = declared
        self._pipes: list[Any] = []
        self.processes: list[Any] = []
        self.told: dict[int, int] = {}

    def start(self, number: int) -> None:
        ours, theirs = FORKS.Pipe()
        name = str(connection.settings_dict["NAME"])
        arguments = (theirs, name, self._declared, number, number % 2 == 1)
        process = FORKS.Process(target=publisher, args=arguments)
        process.start()
        theirs.close()
        self.processes.append(process)
        self._pipes.append(ours)

    def have_ended(self) -> bool:
        """Whether all have, and their children: these have the other end of the pipe, too."""
        for number, pipe in enumerate(self._pipes):
            while not pipe.closed and pipe.poll(0):
                try:
                    self.told[number] = pipe.recv()
                except EOFError:
                    pipe.close()
        return all(pipe.closed for pipe in self._pipes)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


# A group of Kafka takes seconds to notice that somebody is dead.
@pytest.mark.parametrize(
    ("backend", "count", "kills", "stops"),
    [
        ("redis", 6, 3, 1),
        ("kafka", 6, 2, 0),
        pytest.param("redis", 40, 30, 8, marks=pytest.mark.slow),
        pytest.param("kafka", 40, 12, 4, marks=pytest.mark.slow),
    ],
)
def test_each_page_exactly_once(
    backend: str, count: int, kills: int, stops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lossy, "RATE", 0.2)
    if backend == "kafka":
        pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")
    with ROADS[backend]() as road:
        publishers = Publishers(road.declared)

        def feed(share: float) -> None:
            road.trouble()
            present = len(publishers.processes)
            # Some more, where all is counted and a consumer waits for the page of its fate.
            more = 2 if share < 1 and done() else 0
            for number in range(present, max(int(count * share), present + more)):
                publishers.start(number)

        def done() -> bool:
            if not publishers.have_ended():
                return False
            known = registry.positions("default").of(road.stream.source)
            return {part: at.position for part, at in known.items()} == road.ends()

        try:
            make = partial(consumer_beside, road.make, road.declared)
            plan, patience = fates(road.steps, kills, stops), 60 + 8 * (kills + stops)
            scene = play(make, plan, feed, done, after(3 * LEASE), patience)
        finally:
            publishers.stop()
        messages = [opened(text) for text in road.published()]
    assert (scene.killed, scene.stopped) == (kills, stops)
    once = {(one["incarnation"], one["number"]): one["sums"] for one in messages}
    print(f"{len(messages)} messages, {len(messages) - len(once)} repeats")
    assert len(messages) > len(once), "no answer was lost"
    expected: Tally[str] = Tally()
    for sums in once.values():
        expected.update(sums)
    counted = dict(Counter.objects.values_list("key", "value"))
    assert counted == expected
    # Who was not killed has published all; so have all children.
    assert {number: expected[f"chaos:{number}"] for number in publishers.told} == publishers.told
    there = range(len(publishers.processes))
    assert sorted(publishers.told) == list(there[::2])
    assert {expected[f"chaos:{number}-child"] for number in there} == {20}
    assert not CounterIncident.objects.exists()
