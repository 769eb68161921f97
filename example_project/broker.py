"""A Kafka of its own process: the mock broker of librdkafka, which speaks Kafka's protocol.

It is started by ``python -m example_project.broker`` and prints its address. Then it reads
commands, one a line, and answers each by the code of librdkafka. It ends with its input.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka

PRODUCER = 0
PARTITIONS = 4
COMMANDS = {
    "create": "rd_kafka_mock_topic_create",  # topic, partitions, replicas
    "delete": "rd_kafka_mock_topic_delete",  # topic
    "forget": "rd_kafka_mock_partition_delete_records",  # topic, partition, offset
    "down": "rd_kafka_mock_broker_set_down",  # broker
    "up": "rd_kafka_mock_broker_set_up",  # broker
    # broker, kind of request, 1, 0, milliseconds: the next one of the kind is answered so late
    "late": "rd_kafka_mock_broker_push_request_error_rtts",
}


class Broker:
    """The process, seen from outside. ``address``: what clients connect to."""

    def __init__(self) -> None:
        words = [sys.executable, "-m", __name__]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )
        self.address = self._line()

    def tell(self, *words: object) -> None:
        """Give a command, and wait until it has happened."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        assert self._line() == "0", words

    def end(self) -> None:
        """End the process; what it kept is gone."""
        self._process.communicate(timeout=30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def with_topic(name: str) -> Iterator[str]:
    """A block in which there is a broker with a topic; its address."""
    broker = Broker()
    try:
        broker.tell("create", name, PARTITIONS, 1)
        yield broker.address
    finally:
        broker.end()


def _library() -> Any:
    """The librdkafka that the package brings along."""
    home = Path(confluent_kafka.__file__).parent
    places = [home.parent / "confluent_kafka.libs", home / ".dylibs"]
    (found,) = [path for place in places for path in place.glob("librdkafka*")]
    library = ctypes.CDLL(str(found))
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    # Some systems have another way for what comes after these.
    late = library.rd_kafka_mock_broker_push_request_error_rtts
    late.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
    return library


def main() -> None:
    """Run until the input ends."""
    library = _library()
    why = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(PRODUCER, None, why, len(why))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), 1))
    # Groups form at once: a real broker waits for three seconds, which proves nothing.
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)
    # The one that administrators ask, for the ids of topics.
    library.rd_kafka_mock_set_controller_id(cluster, 1)
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        given = [_argument(word) for word in words]
        print(getattr(library, COMMANDS[name])(cluster, *given), flush=True)


def _argument(word: str) -> ctypes.c_int64 | ctypes.c_char_p:
    return ctypes.c_int64(int(word)) if word.isdecimal() else ctypes.c_char_p(word.encode())


if __name__ == "__main__":
    main()
