"""From what stands in the settings to where a Redis is, and how far one goes to find it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache.backends.redis import RedisCache

from django_counters.errors import InvalidConfiguration
from django_counters.redis.addresses import DJANGO, DJANGO_REDIS, Address, Node, address_of
from django_counters.redis.client import Making, client_of
from django_counters.redis.commands import Lost, OnceRequest, ServerRefused
from django_counters.redis.routes import Ask, Wait, route_of, run

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "name", "kind", "nodes"),
    [
        ("redis://h:7/3", "h:7/3", "server", [Node("h", 7)]),
        ("redis://u:s3cr3t@h", "h:6379/0", "server", [Node("h", 6379)]),
        ("rediss://:s3cr3t@h/1?db=4", "h:6379/4", "server", [Node("h", 6379)]),
        ("redis://[::1]:7/0", "::1:7/0", "server", [Node("::1", 7)]),
        ("unix:///run/a%20b.sock?db=2&password=s3cr3t", "/run/a b.sock/2", "server", None),
        (
            "redis+cluster://u:s3cr3t@a:1,b:2",
            "a:1,b:2",
            "cluster",
            [Node("a", 1), Node("b", 2)],
        ),
        ("rediss+cluster://a,b:2", "a:6379,b:2", "cluster", [Node("a", 6379), Node("b", 2)]),
        (
            "redis+sentinel://:s3cr3t@a:1,b/main/5",
            "a:1,b:26379/main/5",
            "sentinel",
            [Node("a", 1), Node("b", 26379)],
        ),
    ],
)
def test_a_url(url: str, name: str, kind: str, nodes: list[Node] | None) -> None:
    address = address_of(url)
    assert (address.name, address.kind) == (name, kind)
    assert list(address.nodes) == (nodes or [Node("/run/a b.sock", 0)])
    assert SECRET not in address.name + repr(address)
    assert address.timeout == 0.05
    assert address.is_cluster == (kind == "cluster")


@pytest.mark.parametrize(
    "wrong",
    [
        "http://:s3cr3t@h/",
        "redis://:s3cr3t@h:port/0",
        "redis://:s3cr3t@h/zero",
        "redis+other://:s3cr3t@h",
        "unix://",
        "unix+cluster://:s3cr3t@h",
        "redis+cluster://:s3cr3t@a,,b",
        "redis+sentinel://:s3cr3t@h",
        "redis+sentinel://:s3cr3t@h/main/zero",
        "://",
    ],
)
def test_a_wrong_url_is_refused_and_not_told(wrong: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        address_of(wrong)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, "1", None, True])
def test_a_wrong_timeout(timeout: object) -> None:
    with pytest.raises(InvalidConfiguration, match="timeout"):
        address_of("redis://h", {"timeout": timeout})


def made(address: Address) -> dict[str, Any]:
    """What redis-py makes of an address, without connecting."""
    connection = Making(address).connection(address.nodes[0])
    names = "username password db client_name socket_timeout socket_connect_timeout protocol"
    told = {name: getattr(connection, name) for name in names.split()}
    return told | {"class": type(connection).__name__, "retries": connection.retry._retries}


def test_what_a_url_says_reaches_the_connection_and_retries_do_not() -> None:
    url = "rediss://me:s3cr3t@h/3?client_name=x&retry_on_timeout=1&socket_timeout=9&protocol=3"
    assert made(address_of(url, {"timeout": 2, "max_age": 5})) == {
        "username": "me",
        "password": SECRET,
        "db": 3,
        "client_name": "x",
        "socket_timeout": 2,
        "socket_connect_timeout": 2,
        "protocol": 2,
        "class": "SSLConnection",
        "retries": 0,
    }


def cached(settings: Any, **declared: Any) -> Address:
    settings.CACHES = {"default": declared}
    return address_of("default")


def test_an_alias_of_django(settings: Any) -> None:
    address = cached(
        settings,
        BACKEND=DJANGO,
        LOCATION=["redis://primary:1/2", "redis://replica:1/2"],
        KEY_PREFIX="shop",
        OPTIONS={"password": SECRET, "pool_class": "x.Y", "client_name": "me"},
    )
    assert (address.name, address.prefix, address.nodes) == ("default", "shop", (("primary", 1),))
    assert made(address) | {"password": SECRET, "db": 2, "client_name": "me"} == made(address)
    assert f"{RedisCache.__module__}.{RedisCache.__name__}" == DJANGO
    text = cached(settings, BACKEND=DJANGO, LOCATION="redis://a;redis://b")
    assert (text.nodes, text.prefix) == ((("a", 6379),), "")


def test_an_alias_of_django_redis(settings: Any) -> None:
    options = {
        "CLIENT_CLASS": "django_redis.client.DefaultClient",
        "PASSWORD": SECRET,
        "USERNAME": "me",
        "SOCKET_TIMEOUT": 9,
        "IGNORE_EXCEPTIONS": True,
        "PARSER_CLASS": "no.matter",
        "CONNECTION_POOL_KWARGS": {
            "max_connections": 3,
            "retry_on_timeout": True,
            "client_name": "x",
        },
    }
    address = cached(
        settings, BACKEND=DJANGO_REDIS, LOCATION="redis://a:1/2,redis://b:1/2", OPTIONS=options
    )
    expected = {"username": "me", "password": SECRET, "db": 2, "client_name": "x", "retries": 0}
    assert made(address) | expected | {"socket_timeout": 0.05} == made(address)
    assert (address.kind, address.nodes) == ("server", (("a", 1),))
    assert SECRET not in repr(address)
    other = cached(
        settings, BACKEND=DJANGO_REDIS, LOCATION="redis://a:1/2", OPTIONS={"PASSWORD": "o"}
    )
    assert other != address
    assert client_of(other) is not client_of(address)


def test_an_alias_of_django_redis_behind_sentinels(settings: Any) -> None:
    address = cached(
        settings,
        BACKEND=DJANGO_REDIS,
        LOCATION="redis://main/2?is_master=1",
        KEY_PREFIX="shop",
        OPTIONS={
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "SENTINELS": [("a", 1), ("b", "2")],
            "SENTINEL_KWARGS": {"password": "other"},
            "PASSWORD": SECRET,
        },
    )
    assert (address.kind, address.service, address.prefix) == ("sentinel", "main", "shop")
    assert address.nodes == (Node("a", 1), Node("b", 2))
    assert address.sentinel_options == {"password": "other"}
    assert made(address) | {"password": SECRET, "db": 2} == made(address)


def test_an_alias_of_django_redis_with_a_cluster(settings: Any) -> None:
    options = {"REDIS_CLIENT_CLASS": "redis.cluster.RedisCluster"}
    address = cached(settings, BACKEND=DJANGO_REDIS, LOCATION="redis://a:1/0", OPTIONS=options)
    assert address.is_cluster


class HerdClient:
    """What a project may have made of one that is refused."""


class OwnClient(HerdClient):
    """A client of a project."""


def spread(client: str) -> dict[str, Any]:
    return {
        "BACKEND": DJANGO_REDIS,
        "LOCATION": "redis://a",
        "OPTIONS": {"CLIENT_CLASS": client},
    }


@pytest.mark.parametrize(
    "declared",
    [
        {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache", "LOCATION": "h:1"},
        {"BACKEND": DJANGO},
        {"BACKEND": DJANGO_REDIS, "LOCATION": "h:1"},
        {"BACKEND": DJANGO_REDIS, "LOCATION": f"redis://:{SECRET}@h:port/0"},
        # These spread keys over servers, or write them later.
        spread("django_redis.client.ShardClient"),
        spread("django_redis.client.herd.HerdClient"),
        spread(f"{__name__}.OwnClient"),
    ],
)
def test_a_cache_that_cannot_count(settings: Any, declared: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfiguration, match="'default'") as caught:
        cached(settings, **declared)
    assert SECRET not in str(caught.value)
    with pytest.raises(InvalidConfiguration, match="'other'"):
        address_of("other")


def test_an_option_that_redis_py_does_not_know(settings: Any) -> None:
    options = {"colour": "red", "password": SECRET}
    address = cached(settings, BACKEND=DJANGO, LOCATION="redis://h", OPTIONS=options)
    with pytest.raises(InvalidConfiguration, match="colour") as caught:
        client_of(address)
    assert SECRET not in str(caught.value)


ONE, TWO = Node("a", 1), Node("b", 2)
REQUEST = OnceRequest("key", b"words")
TABLE = [[0, 16383, ["a", 1, "name", []]]]


def test_servers_that_send_on_and_on_are_not_followed_for_ever() -> None:
    flow = run(route_of(address_of("redis+cluster://a:1"), len), REQUEST)
    next(flow)
    flow.send([TABLE])
    times = 0
    with pytest.raises(Lost, match="MOVED") as caught:
        while True:
            flow.send([ServerRefused("MOVED", f"1 c:{times}")])
            times += 1
    assert not caught.value.sent
    assert times == 5


def test_a_slot_that_is_moving_is_waited_for_shortly() -> None:
    flow = run(route_of(address_of("redis+cluster://a:1"), len), REQUEST)
    next(flow)
    flow.send([TABLE])
    waited = 0.0
    step = flow.send([ServerRefused("TRYAGAIN")])
    with pytest.raises(Lost):
        while True:
            assert isinstance(step, Wait)
            waited += step.seconds
            assert flow.send(None) == Ask(ONE, b"words")
            step = flow.send([ServerRefused("TRYAGAIN")])
    assert 0 < waited <= 0.1
