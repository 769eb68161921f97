"""A Redis Cluster of three masters whose slots move while they are used."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from django_counters.stores.redis.keys import SLOTS, Slots
from example_project.bootstrap import children
from example_project.bootstrap.postgres import free_port
from tests.faults.servers import STARTED_WITHIN, Server

MASTERS = 3
ALL = 16384
LINES = ("cluster-enabled yes", "cluster-node-timeout 5000", "appendonly yes")


class Cluster:
    """Three masters with a third of the slots each."""

    def __init__(self, folder: Path) -> None:
        self._password = secrets.token_hex(16)
        # By default it is a port ten thousand above, which may not exist.
        self._buses = [free_port() for _ in range(MASTERS)]
        self.masters = [
            Server(
                folder,
                f"master{n}",
                *LINES,
                f"cluster-port {bus}",
                port=free_port(),
                password=self._password,
            )
            for n, bus in enumerate(self._buses)
        ]
        self._ids: list[str] = []
        # Who has each slot of the counters.
        self._owners: dict[int, int] = {}

    @property
    def url(self) -> str:
        """The address of all of them."""
        nodes = ",".join(f"127.0.0.1:{one.port}" for one in self.masters)
        return f"redis+cluster://:{self._password}@{nodes}"

    def start(self) -> None:
        """Start them and let them meet."""
        for number, one in enumerate(self.masters):
            one.start()
            one.open()
            first, end = ALL * number // MASTERS, ALL * (number + 1) // MASTERS
            self._say(number, "ADDSLOTSRANGE", first, end - 1)
            for slot in map(key_slot, (key.encode() for key in _keys())):
                if first <= slot < end:
                    self._owners[slot] = number
            self._ids.append(str(self._say(number, "MYID")))
        for one, bus in zip(self.masters[1:], self._buses[1:], strict=True):
            self._say(0, "MEET", "127.0.0.1", one.port, bus)
        assert children.until(self._agrees, STARTED_WITHIN), "the cluster does not agree"

    def _agrees(self) -> bool:
        return all("cluster_state:ok" in str(self._info(n)) for n in range(MASTERS))

    def _info(self, number: int) -> object:
        known = f"cluster_known_nodes:{MASTERS}"
        info = str(self._say(number, "INFO", raw=True))
        return info if known in info else ""

    def _say(self, number: int, *words: object, raw: bool = False) -> Any:
        with self.masters[number].client() as client:
            if raw:
                client.response_callbacks.clear()
            return client.execute_command("CLUSTER", *words)

    def move(self, chance: random.Random) -> None:
        """Move a slot of the counters to another master, key by key, while it is used."""
        slot = chance.choice(list(self._owners))
        source = self._owners[slot]
        target = chance.choice([number for number in range(MASTERS) if number != source])
        self._say(target, "SETSLOT", slot, "IMPORTING", self._ids[source])
        self._say(source, "SETSLOT", slot, "MIGRATING", self._ids[target])
        while keys := self._say(source, "GETKEYSINSLOT", slot, 2):
            time.sleep(chance.choice([0, 0, 0.01]))
            self._migrate(source, target, keys)
        time.sleep(chance.choice([0, 0, 0.05]))
        for number in (target, source, MASTERS - source - target):
            self._say(number, "SETSLOT", slot, "NODE", self._ids[target])
        self._owners[slot] = target

    def _migrate(self, source: int, target: int, keys: Sequence[str]) -> None:
        port = self.masters[target].port
        with self.masters[source].client() as client:
            words = ("127.0.0.1", port, "", 0, 5000, "AUTH", self._password, "KEYS", *keys)
            client.execute_command("MIGRATE", *words)

    def stop(self) -> None:
        """Stop them."""
        for one in self.masters:
            one.stop()


def _keys() -> list[str]:
    slots = Slots("default")
    return [slots.keys(slot)[0] for slot in range(SLOTS)]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that works."""
    running = Cluster(folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()
