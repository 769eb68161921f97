"""A Redis that is killed, comes back older than it was, is replaced, or forgets."""

from __future__ import annotations

import random
import signal
import time

import pytest

from django_counters.redis.keys import SLOTS
from tests.faults.flushers import NAME
from tests.faults.servers import APPEND_ONLY, Pair, Server, held, server
from tests.faults.stage import Play, Stage

pytestmark = pytest.mark.faults
# What each scene has to come to, or it has shown nothing.
LEAST = 100


def test_killed_with_an_append_only_file(stage: Stage) -> None:
    """What the kernel was told is there again: nothing is lost."""
    with server(stage.folder, *APPEND_ONLY) as redis, stage.playing(redis.url) as play:
        for _ in play.pauses(0.2, 0.9, least=4):
            redis.let_sync()
            redis.kill()
            redis.start()
            redis.open()
            stage.postgres.terminate(NAME)
    assert play.verdict.problems(loses=False) == []
    assert play.verdict.incidents["history"] > 0
    assert play.verdict.outcomes["+"] > LEAST


def test_killed_with_snapshots_only(stage: Stage) -> None:
    """What came after the last snapshot is lost, and nothing else; and it is noticed."""
    with server(stage.folder) as redis, stage.playing(redis.url) as play:
        for _ in play.pauses(0.05, 0.3, until=lambda: has_lost(play)):
            with redis.client() as client:
                client.save()
            time.sleep(stage.chance.choice([0, 0.1, 1.2]))
            roll_back(redis, play)
    assert_only_redis_lost(play)


def roll_back(redis: Server, play: Play) -> None:
    """Kill it, and bring it back with what it has saved."""
    before = redis.held_at_last()
    redis.kill()
    at = time.time()
    redis.start()
    play.lose(before - redis.held(), at)
    redis.open()


def test_failover_to_a_lagging_replica(stage: Stage) -> None:
    """The old primary goes on acknowledging what the new one never hears of."""
    pair = Pair(stage.folder)
    try:
        pair.start()
        with stage.playing(pair.url) as play:
            for _ in play.pauses(0.1, 0.5, until=lambda: has_lost(play)):
                fail_over(pair, play, stage.chance)
        assert_only_redis_lost(play)
    finally:
        pair.stop()


def fail_over(pair: Pair, play: Play, chance: random.Random) -> None:
    """Both serve for a while; then the old one is killed."""
    at = time.time()
    after = pair.promote(lag=chance.choice([0, 0.2]))
    time.sleep(chance.uniform(0, 0.2))
    pair.lead()
    with pair.replica.client() as client:
        for one in client.client_list():
            # Half of those who count come back, to the new one.
            if chance.random() < 0.5 and one["flags"] == "N":
                client.client_kill_filter(_id=one["id"])
    time.sleep(chance.uniform(0, 0.3))
    before = pair.replica.held_at_last()
    pair.replica.send(signal.SIGKILL)
    pair.replica.kill()
    play.lose(before - after, at)
    pair.replace()


def test_what_waits_is_deleted(stage: Stage) -> None:
    """All of it, or one slot, or one of its generations."""
    with server(stage.folder, *APPEND_ONLY) as redis, stage.playing(redis.url) as play:
        for _ in play.pauses(0.2, 0.6, until=lambda: has_lost(play)):
            slot = stage.chance.randrange(SLOTS)
            at = time.time()
            with redis.client() as client:
                if stage.chance.random() < 0.5:
                    play.lose(held(client, then="FLUSHALL"), at)
                else:
                    play.lose(held(client, then="UNLINK", slots=[slot]), at)
    assert_only_redis_lost(play)


def has_lost(play: Play) -> bool:
    """Whether it was often enough, and enough."""
    return len(play.losses) >= 3 and play.gone() >= LEAST


def assert_only_redis_lost(play: Play) -> None:
    assert play.verdict.problems(loses=True) == []
    assert play.verdict.inside, "Redis lost nothing that was acknowledged: nothing was shown"
    assert play.verdict.incidents["lost"] + play.verdict.incidents["history"] > 0
    assert play.verdict.outcomes["+"] > LEAST


def test_eviction(stage: Stage) -> None:
    """A Redis that throws away what it likes is noticed by the next flush."""
    with server(stage.folder) as redis, stage.playing(redis.url, flushers=0) as play:
        for _ in play.pauses(2, 2):
            break
        play.end()
        before, at = redis.held(), time.time()
        evict(redis)
        play.lose(before - redis.held(), at)
    assert_only_redis_lost(play)


def evict(redis: Server) -> None:
    """Let it have no more memory than it needs, and need more."""
    before = redis.held()
    with redis.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + (1 << 20))
        for number in range(100_000):
            client.set(f"other:{number}", "x" * 1000)
            if number % 100 == 0 and len(redis.held()) < len(before) / 2:
                break
        client.config_set("maxmemory", 0)
    assert len(redis.held()) < len(before), "nothing was evicted"
