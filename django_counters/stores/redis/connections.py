"""Connections of redis-py that send nothing twice. Only this file imports redis.

redis-py connects, logs in and reads replies. Its pools and clients are not used: they repeat
commands that may have been executed (ten times in redis-py 8), and take a lock for each call.
"""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.connection
import redis.sentinel
from redis import _parsers
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry
from redis.utils import HIREDIS_AVAILABLE

from django_counters.exceptions import InvalidConfiguration
from django_counters.stores.redis.addresses import OURS, Address, Node
from django_counters.stores.redis.commands import Lost

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
