"""Turns an alias of CACHES, or a URL, into the address of a Redis. Nothing connects here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from django.conf import settings
from django.utils.module_loading import import_string

from django_counters.errors import InvalidConfiguration

TIMEOUT = 0.05
DJANGO_REDIS = "django_redis.cache.RedisCache"
DJANGO = "django.core.cache.backends.redis.RedisCache"
# They spread keys over servers by themselves, or write a key later. Neither is one atomic step.
_REFUSED_CLIENTS = ("ShardClient", "HerdClient")
_SCHEMES = ("redis", "rediss", "unix")
_PORTS = {"server": 6379, "cluster": 6379, "sentinel": 26379}
# Django's backend takes these out of OPTIONS, and passes the rest to connections.
_NOT_OF_CONNECTIONS = ("pool_class", "parser_class", "serializer")
# Arguments of pools and clients, and those of connections that settings must not decide.
OURS = frozenset(
    {
        *("host", "port", "path", "connection_class", "connection_pool", "max_connections"),
        *("timeout", "queue_class", "single_connection_client", "auto_close_connection_pool"),
        *("socket_timeout", "socket_connect_timeout", "retry", "retry_on_timeout"),
        *("retry_on_error", "health_check_interval", "protocol", "legacy_responses"),
        *("parser_class", "decode_responses", "encoding", "encoding_errors", "command_packer"),
        *("cache", "cache_config", "event_dispatcher", "maint_notifications_config"),
        *("service_name", "sentinel_manager", "is_master", "check_connection", "ssl"),
    }
)

Kind = Literal["server", "sentinel", "cluster"]


class Node(NamedTuple):
    """One server: a host and its port, or the path of a socket and 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclass(frozen=True)
class Address:
    """Where a Redis is and how to connect to it. Made without connecting.

    Attributes:
        name: for messages and for the database; without a password.
        kind: one server, servers behind Sentinels, or a cluster.
        nodes: the server, the Sentinels, or some servers of the cluster.
        url: what redis-py reads; of a cluster or a service with the first of the nodes.
        service: the name of the servers among the Sentinels.
        prefix: the KEY_PREFIX of the alias.
        timeout: seconds for connecting, and for each reply.
        options: arguments of redis-py's connections, which the URL overrides.
        sentinel_options: arguments for connecting to the Sentinels.
    """

    name: str
    kind: Kind
    nodes: tuple[Node, ...]
    url: str = field(repr=False)
    service: str = ""
    prefix: str = ""
    timeout: float = TIMEOUT
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def is_cluster(self) -> bool:
        """Whether keys of different slots may be on different servers."""
        return self.kind == "cluster"


@contextmanager
def needs_redis(what: str) -> Iterator[None]:
    """Import a module that needs redis-py, which is an extra.

    Args:
        what: the counters or streams that need it, in the plural.

    Raises:
        InvalidConfiguration: redis-py isn't installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        problem = f"{what} need redis-py: pip install django-distributed-counters[redis]"
        raise InvalidConfiguration(problem=problem) from None


def is_timeout(value: object) -> bool:
    """Whether it is a number of seconds above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def address_of(source: str, options: Mapping[str, Any] | None = None) -> Address:
    """The address that a setting means.

    Args:
        source: an alias of CACHES, or a URL: redis, rediss, unix, and with several hosts
            redis+cluster, rediss+cluster, redis+sentinel, rediss+sentinel.
        options: "timeout", in seconds, for connecting and for each reply; others are not read.

    Raises:
        InvalidConfiguration: it names no Redis, or one that cannot count in one atomic step.
    """
    given = (options or {}).get("timeout", TIMEOUT)
    if not is_timeout(given):
        problem = f"the timeout {given!r} is not a number of seconds above 0."
        raise InvalidConfiguration(problem=problem)
    return (_of_url if "://" in source else _of_alias)(source, float(given))


def _of_url(url: str, timeout: float) -> Address:
    scheme, _, rest = url.partition("://")
    base, _, way = scheme.partition("+")
    try:
        if way == "cluster" and base != "unix":
            return _several("cluster", base, rest, timeout)
        if way == "sentinel" and base != "unix":
            return _several("sentinel", base, rest, timeout)
        if not way and base in _SCHEMES:
            node, database = _node_of(url), _database(urlsplit(url))
            return Address(f"{node}/{database}", "server", (node,), url, timeout=timeout)
    except ValueError:  # the message of the cause might contain the password, too
        pass
    shown = re.sub(r"//.*@", "//", url.partition("?")[0])
    raise InvalidConfiguration(problem=f"{shown!r} is not the URL of a Redis.") from None


def _node_of(url: str) -> Node:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError
        return Node(unquote(parts.path), 0)
    return Node(unquote(parts.hostname or "localhost"), parts.port or _PORTS["server"])


def _database(parts: SplitResult) -> int:
    given = parse_qs(parts.query).get("db")
    if given:
        return int(given[0])
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    return int(path or 0)


def _several(kind: Kind, base: str, rest: str, timeout: float) -> Address:
    if base not in _SCHEMES:
        raise ValueError
    parts = urlsplit(f"{base}://{rest}")
    login, at, hosts = parts.netloc.rpartition("@")
    nodes = tuple(_host(host, _PORTS[kind]) for host in hosts.split(","))
    service, path = _service(parts.path) if kind == "sentinel" else ("", "")
    # The host is a placeholder: the servers are found later.
    url = parts._replace(netloc=f"{login}{at}redis", path=path).geturl()
    listed = ",".join(map(str, nodes))
    name = f"{listed}/{service}/{_database(urlsplit(url))}" if service else listed
    return Address(name, kind, nodes, url, service, timeout=timeout)


def _host(host: str, port: int) -> Node:
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError
    return Node(parts.hostname, parts.port or port)


def _service(path: str) -> tuple[str, str]:
    service, _, database = path.strip("/").partition("/")
    if not service:
        raise ValueError
    return unquote(service), f"/{int(database or 0)}"


def _of_alias(alias: str, timeout: float) -> Address:
    declared = settings.CACHES.get(alias)
    if declared is None:
        # It may be a URL without its scheme.
        raise InvalidConfiguration(problem=f"there is no cache {alias.split('@')[-1]!r} in CACHES.")
    backend = declared.get("BACKEND")
    lineage = _lineage(backend)
    if DJANGO in lineage:
        return _of_django(alias, declared, timeout)
    if DJANGO_REDIS in lineage:
        return _of_django_redis(alias, declared, timeout)
    raise InvalidConfiguration(problem=f"the cache {alias!r} is not a Redis but {backend}.")


def is_other_cache(alias: str) -> bool:
    """Whether an alias of CACHES is a cache of another kind than Redis."""
    lineage = _lineage(settings.CACHES.get(alias, {}).get("BACKEND"))
    return bool(lineage) and not {DJANGO, DJANGO_REDIS} & set(lineage)


def _lineage(backend: object) -> Sequence[str]:
    """The names of the class of a backend and of its base classes."""
    if backend in (DJANGO, DJANGO_REDIS):
        return [str(backend)]
    try:
        classes = import_string(str(backend)).__mro__
    except (ImportError, AttributeError):
        return []
    return [f"{one.__module__}.{one.__qualname__}" for one in classes]


def _primary(alias: str, declared: Mapping[str, Any], separators: str) -> str:
    location = declared.get("LOCATION") or ""
    urls: Sequence[str] = re.split(separators, location) if isinstance(location, str) else location
    first = next(iter(urls), "")
    if not first.startswith(tuple(f"{scheme}://" for scheme in _SCHEMES)):
        raise InvalidConfiguration(problem=f"the cache {alias!r} has no URL of a Redis.")
    return first


def _of_django(alias: str, declared: Mapping[str, Any], timeout: float) -> Address:
    url = _primary(alias, declared, "[;,]")
    given = declared.get("OPTIONS") or {}
    options = {name: value for name, value in given.items() if name not in _NOT_OF_CONNECTIONS}
    return _named(alias, declared, "server", url, timeout, options)


def _of_django_redis(alias: str, declared: Mapping[str, Any], timeout: float) -> Address:
    url = _primary(alias, declared, ",")
    given = declared.get("OPTIONS") or {}
    _refuse_clients(alias, given.get("CLIENT_CLASS", ""))
    login = {name.lower(): given[name] for name in ("USERNAME", "PASSWORD") if given.get(name)}
    options = {**login, **given.get("CONNECTION_POOL_KWARGS", {})}
    if given.get("SENTINELS"):
        nodes = tuple(Node(host, int(port)) for host, port in given["SENTINELS"])
        return Address(
            *(alias, "sentinel", nodes, url, urlsplit(url).hostname or ""),
            prefix=declared.get("KEY_PREFIX", ""),
            timeout=timeout,
            options=options,
            sentinel_options=given.get("SENTINEL_KWARGS") or {},
        )
    in_cluster = str(given.get("REDIS_CLIENT_CLASS", "")).endswith("RedisCluster")
    return _named(alias, declared, "cluster" if in_cluster else "server", url, timeout, options)


def _refuse_clients(alias: str, path: str) -> None:
    kinds = [path.rpartition(".")[2]]
    if path and not path.startswith("django_redis."):
        kinds = [kind.__name__ for kind in import_string(path).__mro__]
    for name in _REFUSED_CLIENTS:
        if name in kinds:
            problem = f"the cache {alias!r} has a {name}, which cannot count in one atomic step."
            raise InvalidConfiguration(problem=problem)


def _named(
    alias: str,
    declared: Mapping[str, Any],
    kind: Kind,
    url: str,
    timeout: float,
    options: Mapping[str, Any],
) -> Address:
    try:
        node = _node_of(url)
        _database(urlsplit(url))
    except ValueError:  # its message might contain the password
        problem = f"the cache {alias!r} has no URL of a Redis."
        raise InvalidConfiguration(problem=problem) from None
    prefix = declared.get("KEY_PREFIX", "")
    return Address(alias, kind, (node,), url, prefix=prefix, timeout=timeout, options=options)
