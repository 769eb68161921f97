"""The client of Redis, with connections of each thread. Repeats nothing that may have arrived.

Only this file imports redis. redis-py connects, logs in and reads replies. Its pools and clients
are not used: they repeat commands that may have been executed (ten times in redis-py 8), and take a
lock for each call.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from errno import ECONNABORTED, ECONNRESET, ENOTCONN, EPIPE, ESHUTDOWN
from functools import partial
from typing import Any, TypeVar

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.connection
import redis.sentinel
from django.core.signals import setting_changed
from django.dispatch import receiver
from redis import _parsers
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry
from redis.utils import HIREDIS_AVAILABLE

from django_counters.errors import CounterUnavailable, InvalidConfiguration, OutcomeUnknown
from django_counters.redis.addresses import OURS, Address, Node
from django_counters.redis.commands import (
    Lost,
    OnceRequest,
    ScriptRun,
    ServerRefused,
    Word,
    decoded,
    packed,
    refusal,
    requested,
)
from django_counters.redis.routes import Ask, Discover, Flow, Step, route_of, run, run_many, settle

__all__ = ["Client", "Making", "ScriptRun", "ServerRefused", "client_of"]

_T = TypeVar("_T")
# What redis-py raises for an error of the server, and for a missing answer.
ANSWERED: type[Exception] = ResponseError
BROKEN: tuple[type[Exception], ...] = (RedisError, OSError)


def _parser(plain: Any, fast: Any) -> Any:
    """A parser of redis-py that keeps errors as the server wrote them.

    redis-py turns some of them into a lost connection, which would be an unknown outcome.
    """
    kinds = (fast if HIREDIS_AVAILABLE else plain,)
    return type("Parser", kinds, {"parse_error": staticmethod(ResponseError)})


_PARSER = _parser(_parsers._RESP2Parser, _parsers._HiredisParser)
_ASYNC_PARSER = _parser(_parsers._AsyncRESP2Parser, _parsers._AsyncHiredisParser)


class Making:
    """Makes connections of redis-py without retries."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.timeout = address.timeout
        try:
            given: dict[str, Any] = redis.connection.parse_url(address.url)  # type: ignore[no-untyped-call]
            settings = {**address.options, **given}
            kind = settings.get("connection_class", object)
            is_tls = issubclass(kind, redis.connection.SSLConnection)
            self._tls = is_tls or bool(settings.get("ssl"))
            self._settings = self._chosen(settings)
            self.connection(address.nodes[0])
        except (TypeError, ValueError, RedisError) as error:
            problem = f"Redis {address.name} cannot be connected to with these options: {error}."
            raise InvalidConfiguration(problem=problem) from None

    def _chosen(self, given: dict[str, Any]) -> dict[str, Any]:
        chosen = {name: given[name] for name in given if name not in OURS}
        if self._address.is_cluster:
            chosen.pop("db", None)
        return {
            **chosen,
            "protocol": 2,
            "socket_timeout": self.timeout,
            "socket_connect_timeout": self.timeout,
        }

    def connection(self, node: Node) -> Any:
        """A connection that is not connected yet."""
        kind = self._kind(redis.connection, node)
        retry = Retry(NoBackoff(), 0)
        return kind(**_place(node), **self._settings, parser_class=_PARSER, retry=retry)

    def aconnection(self, node: Node) -> Any:
        """The same for asyncio, without timeouts: the caller limits the time."""
        kind = self._kind(redis.asyncio, node)
        retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
        settings = {**self._settings, "socket_timeout": None}
        return kind(**_place(node), **settings, parser_class=_ASYNC_PARSER, retry=retry)

    def _kind(self, module: Any, node: Node) -> Any:
        if not node.port:
            return module.UnixDomainSocketConnection
        return module.SSLConnection if self._tls else module.Connection

    def master(self) -> Node:
        """The master that the Sentinels know."""
        sentinels: Any = redis.sentinel.Sentinel(
            self._address.nodes, sentinel_kwargs=self._of_sentinels(Retry(NoBackoff(), 0))
        )  # type: ignore[no-untyped-call]
        try:
            host, port = sentinels.discover_master(self._address.service)
        except BROKEN as error:
            raise Lost(error, sent=False) from error
        finally:
            for client in sentinels.sentinels:
                client.close()
        return Node(host, int(port))

    async def amaster(self) -> Node:
        """The same for asyncio."""
        retry = redis.asyncio.retry.Retry(NoBackoff(), 0)
        sentinels: Any = redis.asyncio.sentinel.Sentinel(  # type: ignore[no-untyped-call]
            self._address.nodes, sentinel_kwargs=self._of_sentinels(retry)
        )
        try:
            host, port = await sentinels.discover_master(self._address.service)
        except BROKEN as error:
            raise Lost(error, sent=False) from error
        finally:
            for client in sentinels.sentinels:
                await client.aclose()
        return Node(host, int(port))

    def _of_sentinels(self, retry: Any) -> dict[str, Any]:
        limits = {"socket_timeout": self.timeout, "socket_connect_timeout": self.timeout}
        return {**self._address.sentinel_options, **limits, "protocol": 2, "retry": retry}


def _place(node: Node) -> dict[str, Any]:
    return {"host": node.host, "port": node.port} if node.port else {"path": node.host}


def cluster_slot_of(key: str) -> int:
    """The slot of a cluster that a key is in."""
    return key_slot(key.encode())


# The system took nothing more of the request, so no server has the whole of it.
_UNSENT = frozenset({EPIPE, ECONNRESET, ECONNABORTED, ENOTCONN, ESHUTDOWN})


def polling(number: int) -> Callable[[], Sequence[object]]:
    """Return a function that is true if a socket, given by its number, can be read or is closed."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return partial(poll.poll, 0)
    # eventlet removes poll. Its select takes any number; that of the system takes small ones.
    return lambda: select.select([number], [], [], 0)[0]


class RedisWire:
    """A connection of one thread to one server."""

    __slots__ = ("_connection", "_pid", "_poll")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._pid = os.getpid()
        try:
            connection.connect()
        except BROKEN as error:
            raise Lost(error, sent=False) from error
        self._poll = polling(connection._sock.fileno())

    def is_stale(self) -> bool:
        """Whether the server has closed it or sent something, or it belongs to a parent process.

        Sends nothing. It checks the process because Python does not notice the forks of uWSGI.
        """
        return self._pid != os.getpid() or bool(self._poll())

    def ask(self, request: bytes, replies: int) -> list[Any]:
        """Send once and read the replies.

        Raises:
            Lost: no answer came. The connection is closed, as after every other error.
        """
        try:
            self._send(request, replies)
            return [self._reply() for _ in range(replies)]
        except BROKEN as error:
            self.close()
            raise Lost(error, sent=True) from error
        except BaseException:
            self.close()
            raise

    def _send(self, request: bytes, replies: int) -> None:
        try:
            self._connection.send_packed_command((request,), check_health=False)
        except BROKEN as error:
            # The first ones of several commands may be complete.
            if replies == 1 and getattr(error.__context__, "errno", None) in _UNSENT:
                self.close()
                raise Lost(error, sent=False) from error
            raise

    def _reply(self) -> Any:
        try:
            return decoded(self._connection.read_response())
        except ANSWERED as error:
            return refusal(str(error))

    def close(self) -> None:
        """Close it at once."""
        self._connection.disconnect()


class _Wires(threading.local):
    """The idle connections of each thread, which close when it ends."""

    def __init__(self) -> None:
        self.idle: dict[Node, RedisWire] = {}


class Client:
    """Runs scripts and commands on the Redis of one address, for all threads of a process.

    Each thread has connections of its own, and so has a process that was forked.
    """

    def __init__(self, address: Address) -> None:
        self.name = address.name
        self.using = f"redis:{address.name}"
        self.making = Making(address)
        self.route = route_of(address, cluster_slot_of)
        self._wires = _Wires()

    def run(self, command: ScriptRun) -> Any:
        """Run a script once.

        Raises:
            Refused: the server answered an error.
            CounterUnavailable: the script did not run.
            OutcomeUnknown: the connection was lost, or timed out, before the answer.
        """
        return self._one(requested(command), reads=False)

    def run_many(self, commands: Sequence[ScriptRun]) -> list[Any]:
        """Run scripts in one round trip per server of a cluster, each of them once.

        Returns their replies; an error is an instance of `ServerRefused`.

        Raises:
            CounterUnavailable: none of them ran.
            OutcomeUnknown: an answer was lost.
        """
        try:
            return self._take(run_many(self.route, [requested(command) for command in commands]))
        except Lost as lost:
            raise self.meaning(lost, reads=False) from lost

    def call(self, *words: Word, key: str | None = None, reads: bool = True) -> Any:
        """Run a plain command once, on the server of ``key``, with the errors of `run`.

        ``reads``: it changes nothing, so a lost answer is no unknown outcome.
        """
        return self._one(OnceRequest(key, packed(*words)), reads=reads)

    def close(self) -> None:
        """Close the connections of all threads, those in use when they have their answers."""
        # Only here is a reference to the connections of a thread.
        self._wires = _Wires()

    def renew(self) -> None:
        """Forget what belongs to the parent process, after a fork."""
        self._wires = _Wires()
        self.route.renew()

    def meaning(self, lost: Lost, *, reads: bool) -> CounterUnavailable | OutcomeUnknown:
        """The error that a lost connection means for the caller."""
        if lost.sent and not reads:
            return OutcomeUnknown(using=self.using)
        return CounterUnavailable(using=self.using, reason=str(lost))

    def _one(self, request: OnceRequest, *, reads: bool) -> Any:
        try:
            reply = self._reply(request)
        except Lost as lost:
            raise self.meaning(lost, reads=reads) from lost
        if type(reply) is ServerRefused:
            raise reply
        return reply

    def _reply(self, request: OnceRequest) -> Any:
        if self.route.alone is None:
            return self._take(run(self.route, request))
        # With one server, nearly every request is answered at once.
        (reply,) = self._ask(Ask(self.route.alone, request.words))
        if type(reply) is not ServerRefused:
            return reply
        return self._take(settle(self.route, request, self.route.alone, reply))

    def _take(self, flow: Flow[_T]) -> _T:
        try:
            step = next(flow)
            while True:
                try:
                    came = self._step(step)
                except Lost as lost:
                    step = flow.throw(lost)
                else:
                    step = flow.send(came)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _step(self, step: Step) -> Any:
        if isinstance(step, Ask):
            return self._ask(step)
        if isinstance(step, Discover):
            return self._discover()
        time.sleep(step.seconds)
        return None

    def _ask(self, ask: Ask) -> list[Any]:
        idle, node = self._wires.idle, ask.node
        ticket = self.route.admit(node)
        # Remove it while in use: a signal handler that counts meanwhile needs another one.
        wire = idle.pop(node, None)
        try:
            if wire is None or wire.is_stale():
                wire = self._connect(idle, node, wire)
            replies = wire.ask(ask.request, ask.replies)
        except BaseException as error:
            self.route.broken(node, ticket, error)
            raise
        if self.route.answered(node, ticket, replies):
            idle[node] = wire
        else:
            wire.close()
        return replies

    def _connect(
        self, idle: dict[Node, RedisWire], node: Node, stale: RedisWire | None
    ) -> RedisWire:
        if stale is not None:
            stale.close()
        for other in [other for other in idle if not self.route.keeps(other)]:
            idle.pop(other).close()
        return RedisWire(self.making.connection(node))

    def _discover(self) -> Node:
        ticket = self.route.admit(None)
        try:
            node = self.making.master()
        except BaseException as error:
            self.route.broken(None, ticket, error)
            raise
        self.route.answered(None, ticket, ())
        return node


_clients: dict[Address, Client] = {}


def client_of(address: Address) -> Client:
    """The client of this process for an address. Connects nothing.

    Raises:
        InvalidConfiguration: redis-py does not know one of the options.
    """
    return _clients.get(address) or _clients.setdefault(address, Client(address))


def _renew() -> None:
    for client in _clients.values():
        client.renew()


# A child process has the sockets of its parent, and must not use them.
os.register_at_fork(after_in_child=_renew)


@receiver(setting_changed)
def _close(*, setting: str, **_: object) -> None:
    """Close all connections when a test overrides ``CACHES`` and when it ends."""
    if setting == "CACHES":
        for client in list(_clients.values()):
            client.close()
