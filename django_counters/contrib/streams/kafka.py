"""The options of a Kafka topic, and its messages. Nothing connects here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Protocol

from django_counters.errors import InvalidConfiguration
from django_counters.options import Option

MISSING = "topics of Kafka need confluent-kafka: pip install django-distributed-counters[kafka]"
# Settings of librdkafka that have options here, and the ones that exact counts depend on.
INSTEAD = {"bootstrap.servers": "LOCATION", "metadata.broker.list": "LOCATION", "group.id": "GROUP"}
OURS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "partition.assignment.strategy": "range",
    "group.protocol": "classic",
    "allow.auto.create.topics": False,
}
# Instead of half a second for a partition whose position is set again, and a second for a consumer
# that has read all that was fetched.
SOONER = {"fetch.wait.max.ms": 100, "fetch.queue.backoff.ms": 10}
# The options of all producers.
PUBLISHING = {"enable.idempotence": True, "acks": "all", "allow.auto.create.topics": False}
REFUSED = {
    *OURS,
    *PUBLISHING,
    "auto.commit.enable",
    "offset.store.method",
    "request.required.acks",
    "transactional.id",
    "message.timeout.ms",
    "delivery.timeout.ms",
    # A producer waits for the report of each message.
    "delivery.report.only.error",
    # Older messages in there would go before all of ours.
    "default.topic.config",
}
#: The header of a message that a buffer has published.
PUBLISHED = "django_counters"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 249


OPTIONS = (
    Option(
        "LOCATION",
        None,
        "'host:port', several with commas between",
        "The first brokers to connect to.",
        lambda value: isinstance(value, str) and bool(value.strip()),
        secret=True,
    ),
    Option(
        "TOPIC",
        None,
        "name of a topic",
        "The topic to read, and to publish to. Each partition is a part: as many consumers work "
        "at once as there are partitions.",
        _is_name,
    ),
    Option(
        "GROUP",
        None,
        "name of a group, or None",
        "The group of the consumers, which assigns the partitions. None: `django-counters-` and "
        "the name of the stream. Another database than `default` adds its alias.",
        lambda value: value is None or _is_name(value),
    ),
    Option(
        "OPTIONS",
        None,
        "dictionary of settings of librdkafka, or None",
        "For TLS, SASL and timeouts.",
        lambda value: value is None or isinstance(value, Mapping),
        secret=True,
    ),
)


def problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of options whose values are each accepted. Connects to nothing."""
    if not find_spec("confluent_kafka"):
        yield f"{MISSING}."
    for name in values["OPTIONS"] or {}:
        if name in INSTEAD:
            yield f"OPTIONS: set {INSTEAD[name]} instead of {name!r}."
        elif name in REFUSED:
            yield f"OPTIONS: {name!r} can't be set: exact counts depend on it."
        elif not isinstance(name, str) or name.endswith("_cb"):
            yield f"OPTIONS: {name!r} isn't a setting."


def parts(values: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG001
    """Return no parts: only the brokers have the list of partitions."""
    return ()


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its brokers. ``settings``: the declared settings of librdkafka."""

    location: str
    name: str
    # They include the password.
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def connecting(self) -> dict[str, Any]:
        """Return the settings of its clients."""
        return {"bootstrap.servers": self.location, **self.settings}


@contextmanager
def needs_kafka() -> Iterator[None]:
    """Raise `InvalidConfiguration` if confluent-kafka, which is an extra, isn't installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise InvalidConfiguration(problem=MISSING) from None


def topic_of(location: str, own: Mapping[str, Any]) -> Topic:
    """Return the topic of a stream with these options."""
    return Topic(location, own["TOPIC"], own["OPTIONS"] or {})


class Raw(Protocol):
    """A message of librdkafka."""

    def key(self) -> bytes | None:
        """Its key."""

    def value(self) -> bytes | None:
        """Its payload."""

    def headers(self) -> Any:
        """Its headers, as pairs, or None."""

    def partition(self) -> int | None:
        """Its partition."""

    def offset(self) -> int | None:
        """Its offset there."""

    def timestamp(self) -> tuple[int, int]:
        """The type of its time, and milliseconds."""


class KafkaMessage:
    """One message of a topic, as passed to `DECODE`."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    @property
    def value(self) -> bytes | None:
        """Return its contents; None for a tombstone of a compacted topic."""
        return self._raw.value()

    @property
    def key(self) -> bytes | None:
        """Return its key, which determines the partition, or None."""
        return self._raw.key()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return its headers. A name may occur several times."""
        return list(self._raw.headers() or ())

    @property
    def part(self) -> int:
        """Return its partition."""
        return self._raw.partition() or 0

    @property
    def offset(self) -> int:
        """Return its offset in the partition."""
        return self._raw.offset() or 0

    @property
    def at(self) -> datetime:
        """Return the aware moment when it was made; when it was added, if the topic is set so.

        Raises:
            ValueError: it has no time. Only brokers before 0.10 accept such messages.
        """
        kind, milliseconds = self._raw.timestamp()
        if not kind:
            raise ValueError("the message has no time")
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    @property
    def published(self) -> str | None:
        """Return the buffer's message in it; None if it isn't a publication."""
        if not any(name == PUBLISHED for name, _ in self._raw.headers() or ()):
            return None
        return (self.value or b"").decode()

    @property
    def payload(self) -> str:
        """Return its whole contents as text for people."""
        return repr({"key": self.key, "value": self.value, "headers": self.headers})
