"""Where buffers publish: the end of a stream, regardless of its backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from django_counters.exceptions import InvalidConfiguration
from django_counters.stores.kafka.declared import MISSING, topic_of
from django_counters.stores.redis.streams import RedisOutlet
from django_counters.streams import Stream, streams


class Outlet(Protocol):
    """Appends messages to one stream. Connects when it is asked first."""

    def append(self, history: UUID, text: str) -> None:
        """Append a message of a history, and wait until it is there.

        All of one history are in one part, in the order of the calls, so that none is counted
        before an earlier one.

        Raises:
            OutcomeUnknown: it may be there, also later.
            CounterUnavailable: it is not there, and never will be.
        """


def outlet_to(name: str) -> Outlet:
    """An outlet to a stream, by its name in the settings.

    Raises:
        InvalidConfiguration: there is no such stream, or a package for it is not installed.
    """
    declared = streams()
    if name not in declared:
        raise InvalidConfiguration(problem=f"there is no stream {name!r} in COUNTERS_STREAMS.")
    stream = declared[name]
    return _OUTLETS[stream.backend](stream)


def _redis(stream: Stream) -> Outlet:
    return RedisOutlet(stream.location, stream.parts)


def _kafka(stream: Stream) -> Outlet:
    # confluent-kafka is an extra.
    try:
        from django_counters.stores.kafka.outlet import KafkaOutlet
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise InvalidConfiguration(problem=MISSING) from None
    return KafkaOutlet(topic_of(stream.location, stream.own))


_OUTLETS: Mapping[str, Callable[[Stream], Outlet]] = {"redis": _redis, "kafka": _kafka}
