"""Routes requests to servers, follows their redirections, and breaks off calls that fail. No I/O.

Generators yield steps. A client, blocking or not, takes each step and sends back its result, or
throws in `Lost` if it failed. They repeat no request unless the server answered that it did not
execute it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

from django_counters.redis.addresses import Address, Node
from django_counters.redis.commands import Lost, OnceRequest, ServerRefused, packed

logger = logging.getLogger("django_counters")
State = Literal["closed", "half-open", "open"]
# From the best to the worst.
STATES: tuple[State, ...] = ("closed", "half-open", "open")
FAILURES = 3
PAUSE = 1.0


class Breaker:
    """Admits calls, or refuses them at once.

    It is closed until some calls in a row fail. Then it opens. After a pause it admits one call at
    a time as a probe, and closes when one succeeds. Each admitted call gets a ticket, and reports
    its outcome with it. Reports of calls from before the last change of state are ignored.

    It serves threads and tasks: it holds the lock for a few instructions, never during I/O.

    Args:
        failures: how many in a row open it.
        pause: seconds until the next probe.
        clock: tells seconds, never going back.
    """

    __slots__ = (
        *("_clock", "_count", "_failures", "_lock"),
        *("_pause", "_probing", "_ticket", "_until"),
    )

    def __init__(
        self,
        failures: int = FAILURES,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._ticket = 0
        self._probing = False
        self._until: float | None = None

    @property
    def state(self) -> State:
        """The state; half-open when the next call is a probe."""
        until = self._until
        if until is None:
            return "closed"
        return "open" if self._clock() < until else "half-open"

    def admit(self) -> int | None:
        """A ticket for one call, which has to be returned; None if the call is refused."""
        ticket = self._ticket
        # Read without the lock, and after the ticket: nearly every call takes this path.
        if self._until is None:
            return ticket
        with self._lock:
            return self._probe()

    def _probe(self) -> int | None:
        # It may have been closed meanwhile.
        if self._until is not None:
            if self._probing or self._clock() < self._until:
                return None
            self._probing = True
            self._ticket += 1
        return self._ticket

    def succeeded(self, ticket: int) -> bool:
        """The call was answered. Return whether this has closed it."""
        if not self._count:
            return False
        with self._lock:
            if ticket != self._ticket:
                return False
            was_open = self._until is not None
            self._close()
            return was_open

    def failed(self, ticket: int) -> bool:
        """The call was not answered. Return whether this has opened it, and not kept it open."""
        with self._lock:
            if ticket != self._ticket:
                return False
            self._count += 1
            was_open = self._until is not None
            if self._count >= self._failures:
                self._open(self._clock() + self._pause)
            return not was_open and self._until is not None

    def abandoned(self, ticket: int) -> None:
        """The caller cancelled the call, which says nothing about the server."""
        with self._lock:
            if self._probing and ticket == self._ticket:
                self._open(self._clock())

    def _open(self, until: float) -> None:
        self._until = until
        self._probing = False
        self._ticket += 1

    def _close(self) -> None:
        if self._until is not None:
            self._ticket += 1
        self._count = 0
        self._probing = False
        self._until = None


# How often servers that did not execute a command may redirect it.
REDIRECTIONS = 5
# Seconds between two redirections while the keys of a slot are on two servers.
PATIENCE = 0.01
# Errors of a server that cannot serve, which count as no answer.
_AWAY = frozenset({"LOADING", "CLUSTERDOWN"})
# After these errors, connect again: the name may lead to another server by then.
_LEFT = _AWAY | {"READONLY"}
_ASKING = packed("ASKING")
_TABLE = packed("CLUSTER", "SLOTS")


class Ask(NamedTuple):
    """Send this to a server once. The result is its replies."""

    node: Node
    request: bytes
    replies: int = 1


class Discover(NamedTuple):
    """Ask the Sentinels for the present master. The result is its node."""


class Wait(NamedTuple):
    """Do nothing for some seconds."""

    seconds: float


Step = Ask | Discover | Wait
_T = TypeVar("_T")
Flow = Generator[Step, Any, _T]


class Route:
    """One server."""

    def __init__(self, address: Address) -> None:
        self.seeds = address.nodes
        self._name = address.name
        # The only server, if there can be no other.
        self.alone = address.nodes[0] if address.kind == "server" else None
        self.renew()

    def renew(self) -> None:
        """Forget what was learned, and locks that a thread of the parent process may hold."""
        self._breakers: dict[Node | None, Breaker] = {}

    def admit(self, node: Node | None) -> int:
        """A ticket for a request to a server, or to the Sentinels for None.

        Raises:
            Lost: the breaker of the server is open.
        """
        breaker = self._breakers.get(node) or self._breakers.setdefault(node, Breaker())
        ticket = breaker.admit()
        if ticket is None:
            raise Lost("it failed several times in a row and is left alone", sent=False)
        return ticket

    def breakers(self) -> list[Breaker]:
        """The breakers of the servers that have been asked."""
        return list(self._breakers.values())

    def answered(self, node: Node | None, ticket: int, replies: Sequence[Any]) -> bool:
        """Take note of answers. Returns whether the connection may be used again."""
        codes = {reply.code for reply in replies if type(reply) is ServerRefused}
        if codes & _AWAY:
            self._count_failure(node, ticket)
        elif self._breakers[node].succeeded(ticket):
            logger.warning("Redis %s answers again.", self._shown(node))
        return not codes & _LEFT

    def broken(self, node: Node | None, ticket: int, error: BaseException) -> None:
        """Take note that there was no answer, and why."""
        if not isinstance(error, Lost):
            self._breakers[node].abandoned(ticket)
            return
        self._count_failure(node, ticket)
        if node is not None:
            self.failed(node)

    def _count_failure(self, node: Node | None, ticket: int) -> None:
        if self._breakers[node].failed(ticket):
            logger.warning(
                "Redis %s is unavailable: %d failures in a row. "
                "Calls fail at once until it answers.",
                self._shown(node),
                FAILURES,
            )

    def _shown(self, node: Node | None) -> str:
        """What people call a server, or the Sentinels."""
        return f"{self._name} ({'Sentinels' if node is None else node})"

    def find(self, key: str | None) -> Flow[Node]:  # noqa: ARG002
        """The server that has the key."""
        yield from ()
        return self.seeds[0]

    def keeps(self, node: Node) -> bool:  # noqa: ARG002
        """Whether to keep connections to it."""
        return True

    def failed(self, node: Node) -> None:
        """A connection to it was lost or could not be made."""

    def refused(self, node: Node, code: str) -> None:
        """It answered an error."""

    def moved(self, key: str | None, node: Node) -> None:
        """Another server has the key now."""


class SentinelRoute(Route):
    """The master among servers that Sentinels watch."""

    def renew(self) -> None:
        super().renew()
        self._master: Node | None = None

    def find(self, key: str | None) -> Flow[Node]:  # noqa: ARG002
        node = self._master
        if node is None:
            node = self._master = yield Discover()
        return node

    def keeps(self, node: Node) -> bool:
        return node == self._master

    def failed(self, node: Node) -> None:
        self._forget(node)

    def refused(self, node: Node, code: str) -> None:
        if code == "READONLY":
            self._forget(node)

    def _forget(self, node: Node) -> None:
        if node == self._master:
            self._master = None


class ClusterRoute(Route):
    """Servers that share the keys.

    ``slot_of``: the slot of a key.
    """

    def __init__(self, address: Address, slot_of: Callable[[str], int]) -> None:
        self._slot_of = slot_of
        super().__init__(address)

    def renew(self) -> None:
        super().renew()
        self._table: dict[int, Node] = {}
        self._nodes: tuple[Node, ...] = ()
        self._stale = True
        self._suspect: Node | None = None

    def find(self, key: str | None) -> Flow[Node]:
        if self._stale or not self._table:
            yield from self._load()
        if key is None:
            return self._nodes[0]
        node = self._table.get(self._slot_of(key))
        if node is None:
            self._stale = True
            raise Lost("no server of the cluster has this slot", sent=False)
        return node

    def keeps(self, node: Node) -> bool:
        return node in self._nodes

    def failed(self, node: Node) -> None:
        self._suspect = node
        self._stale = True

    def refused(self, node: Node, code: str) -> None:
        if code in ("CLUSTERDOWN", "READONLY"):
            self.failed(node)

    def moved(self, key: str | None, node: Node) -> None:
        if key is not None:
            self._table[self._slot_of(key)] = node
        self._stale = True

    def _load(self) -> Flow[None]:
        """Load the table of slots from the first server that has one; else the old one stays."""
        # Before the request: a change that is noticed meanwhile makes the answer stale again.
        self._stale = False
        reason: object = ""
        for node in self._candidates():
            try:
                (reply,) = yield Ask(node, _TABLE)
            except Lost as lost:
                reason = lost
                continue
            if not isinstance(reply, ServerRefused) and self._read(node, reply):
                return
            reason = reply or "the cluster has no slots yet"
        self._stale = True
        if not self._table:
            raise Lost(reason, sent=False)

    def _candidates(self) -> Sequence[Node]:
        nodes = dict.fromkeys((*self._nodes, *self.seeds))
        return sorted(nodes, key=lambda node: node == self._suspect)

    def _read(self, told_by: Node, reply: Sequence[Any]) -> bool:
        table: dict[int, Node] = {}
        for first, last, (host, port, *_), *_ in reply:
            node = Node(host or told_by.host, int(port))
            table.update(dict.fromkeys(range(first, last + 1), node))
        if table:
            self._table, self._nodes = table, tuple(dict.fromkeys(table.values()))
        return bool(table)


def route_of(address: Address, slot_of: Callable[[str], int]) -> Route:
    """The route to the servers of an address; ``slot_of``: the slot of a key of a cluster."""
    if address.is_cluster:
        return ClusterRoute(address, lru_cache(maxsize=1024)(slot_of))
    return SentinelRoute(address) if address.kind == "sentinel" else Route(address)


def run(route: Route, request: OnceRequest) -> Flow[Any]:
    """The reply to one request, which may be `ServerRefused`."""
    node = yield from route.find(request.key)
    (reply,) = yield Ask(node, request.words)
    if type(reply) is ServerRefused:
        return (yield from settle(route, request, node, reply))
    return reply


def run_many(route: Route, requests: Sequence[OnceRequest]) -> Flow[list[Any]]:
    """The replies to several requests, each of which may be `ServerRefused`.

    Requests for one server go there together. If some were answered, and another server of a
    cluster was not reached, the requests for that one are refused with CLUSTERDOWN.
    """
    groups = yield from _grouped(route, requests)
    replies: list[Any] = [None] * len(requests)
    failed: list[Lost] = []
    for node, places in groups.items():
        words = b"".join([requests[place].words for place in places])
        try:
            answered = yield Ask(node, words, len(places))
        except Lost as lost:
            failed.append(lost)
            answered = [_unreached(lost)] * len(places)
        for place, reply in zip(places, answered, strict=True):
            replies[place] = reply
    if failed and len(failed) == len(groups):
        raise failed[0]
    yield from _settle_many(route, requests, groups, replies)
    return replies


def _grouped(route: Route, requests: Sequence[OnceRequest]) -> Flow[dict[Node, list[int]]]:
    groups: dict[Node, list[int]] = {}
    for place, request in enumerate(requests):
        node = yield from route.find(request.key)
        groups.setdefault(node, []).append(place)
    return groups


def _unreached(lost: Lost) -> ServerRefused:
    """The reply for a server that was not reached, while others may have executed their part."""
    if lost.sent:
        raise lost
    return ServerRefused("CLUSTERDOWN", f"a server was not reached: {lost}")


def _settle_many(
    route: Route,
    requests: Sequence[OnceRequest],
    groups: dict[Node, list[int]],
    replies: list[Any],
) -> Flow[None]:
    for node, places in groups.items():
        for place in places:
            reply = replies[place]
            if type(reply) is ServerRefused:
                try:
                    replies[place] = yield from settle(route, requests[place], node, reply)
                except Lost as lost:
                    replies[place] = _unreached(lost)


def settle(route: Route, request: OnceRequest, node: Node, reply: Any) -> Flow[Any]:
    """Send a request again that a server did not execute, until one does or all refuse it."""
    words, asking = request.words, False
    for _ in range(REDIRECTIONS):
        if reply.code == "NOSCRIPT" and request.whole and words is request.words:
            words = request.whole()
        elif reply.code in ("MOVED", "ASK"):
            node, asking = _target(node, reply), reply.code == "ASK"
            if not asking:
                route.moved(request.key, node)
        elif reply.code == "TRYAGAIN":
            yield Wait(PATIENCE)
        else:
            route.refused(node, reply.code)
            return reply
        reply = (yield Ask(node, _ASKING + words if asking else words, 1 + asking))[-1]
        if type(reply) is not ServerRefused:
            return reply
    raise Lost(f"no server took it: {reply}", sent=False)


def _target(node: Node, reply: ServerRefused) -> Node:
    host, _, port = reply.message.rpartition(" ")[2].rpartition(":")
    return Node(host or node.host, int(port))
