"""A Redis Cluster of three masters whose slots move while they are used."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis.crc import key_slot

from django_counters.redis.keys import SLOTS
from example_project.bootstrap.postgres import free_port
from tests.faults.servers import slots_in
from tests.redis.servers import Server, joined, running

MASTERS = 3
SETTINGS = ("--cluster-enabled", "yes", "--cluster-node-timeout", 5000, "--appendonly", "yes")


class Cluster:
    """Masters with a third of the slots each."""

    def __init__(self, masters: list[Server]) -> None:
        joined(masters)
        self._masters = masters
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{one.port}" for one in masters)
        # Who has a slot of the counters that was moved.
        self._owners: dict[int, Server] = {}

    def move(self, chance: random.Random) -> None:
        """Move a slot of the counters to another master, key by key, while it is used."""
        named = next(filter(None, (slots_in(one.direct) for one in self._masters)), None)
        if named is None:
            return
        slot = key_slot(named.keys(chance.randrange(SLOTS))[0].encode())
        source = self._owners.get(slot, self._masters[slot * MASTERS // 16384])
        target = chance.choice([one for one in self._masters if one is not source])
        target("CLUSTER", "SETSLOT", slot, "IMPORTING", source("CLUSTER", "MYID"))
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", target("CLUSTER", "MYID"))
        while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 2):
            time.sleep(chance.choice([0, 0, 0.01]))
            source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        time.sleep(chance.choice([0, 0, 0.05]))
        (other,) = (one for one in self._masters if one not in (source, target))
        for one in (target, source, other):
            one("CLUSTER", "SETSLOT", slot, "NODE", target("CLUSTER", "MYID"))
        self._owners[slot] = target


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that works."""
    arguments = [(*SETTINGS, "--cluster-port", free_port)] * MASTERS
    with running(folder, *arguments) as masters:
        yield Cluster(masters)
