"""The connections of threads: what is executed, how often, and what is known about it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_counters.errors import CounterError, CounterUnavailable, OutcomeUnknown
from django_counters.redis.addresses import DJANGO, address_of
from django_counters.redis.client import Client, ServerRefused, client_of
from django_counters.redis.commands import Script, ScriptRun
from tests.redis.counting import (
    FAIL,
    add,
    connected,
    eventually,
    fresh,
    fresh_in_a_loop,
    named,
    stands_at,
)
from tests.redis.proxy import Fault, Proxy

LOSING: list[Fault] = ["swallow", "close", "reset", "half", "unsent"]
# More than any client would try again.
ALWAYS = 50
SHORT = 1.0
Both = Callable[..., Any]


@pytest.fixture(params=["threads", "event loops"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    """Makes clients of threads, or those of event loops."""
    if request.param == "threads":
        yield fresh
    else:
        with fresh_in_a_loop() as made:
            yield made


def test_a_script_that_the_server_has_forgotten_is_run_once(both: Both, key: str) -> None:
    script = Script(f"return redis.call('INCRBY', KEYS[1], ARGV[1]) -- {key}")
    command = ScriptRun(script, (key,), (1,))
    client = both()
    assert client.run(add(key, 0)) == 0
    assert [client.run(command), client.run(command)] == [1, 2]
    again = ScriptRun(Script(script.text + "!"), (key,), (1,))
    assert client.run_many([again, add(key), again]) == [4, 3, 5]
    assert stands_at(key) == 5


def test_texts_are_texts_and_other_bytes_can_be_sent_back(both: Both, key: str) -> None:
    client = both()
    client.call("HSET", key, "ä", b"\xff", "n", 7, reads=False)
    assert client.call("HGETALL", key) == ["ä", "\udcff", "n", "7"]
    assert client.call("HSCAN", key, 0) == ["0", ["ä", "\udcff", "n", "7"]]
    client.call("HSET", key, "\udcff", "ä", reads=False)
    assert client.call("HGET", key, b"\xff") == "ä"
    assert client.call("HGET", key, "missing") is None


def test_an_error_of_the_server_is_refused_and_the_connection_is_kept(both: Both, key: str) -> None:
    client = both()
    with pytest.raises(ServerRefused) as caught:
        client.run(ScriptRun(FAIL, (key,), ()))
    assert (caught.value.code, caught.value.message) == ("RINGFULL", "no place is free")
    before = client.call("CLIENT", "ID")
    replies = client.run_many([add(key), ScriptRun(FAIL, (key,), ()), add(key)])
    assert [replies[0], replies[2]] == [1, 2]
    assert isinstance(replies[1], ServerRefused)
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        client.call("HGET", key, "field")
    assert client.call("CLIENT", "ID") == before


@pytest.mark.parametrize("text", ["LOADING it reads its data", "NOAUTH log in first"])
def test_an_error_that_redis_py_takes_for_a_lost_connection_is_an_answer(
    both: Both, key: str, text: str
) -> None:
    script = Script(f"redis.call('INCR', KEYS[1]); return redis.error_reply('{text}')")
    with pytest.raises(ServerRefused) as caught:
        both().run(ScriptRun(script, (key,), ()))
    assert str(caught.value) == text


@pytest.mark.rare
def test_many_commands_are_one_round_trip(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url)
    client.run(add(key))
    proxy.lose("hold", times=ALWAYS)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.run_many, [add(key)] * 20)
        # Its connection is another one: all are executed before the first reply is passed on.
        assert eventually(lambda: stands_at(key) == 21)
        assert not running.done()
        proxy.release.set()
        assert running.result(60) == list(range(2, 22))
    assert proxy.times == ALWAYS - 1


Call = tuple[Callable[[Any, str], Any], type[CounterError], int]
# What is lost, what that means, and how often the server has added.
CALLS: dict[str, Call] = {
    "one": (lambda client, key: client.run(add(key)), OutcomeUnknown, 1),
    "many": (lambda client, key: client.run_many([add(key)] * 3), OutcomeUnknown, 3),
    "write": (lambda client, key: client.call("INCRBY", key, 1, reads=False), OutcomeUnknown, 1),
    "read": (lambda client, key: client.call("INCRBY", key, 1), CounterUnavailable, 1),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", LOSING)
def test_a_lost_reply_is_unknown_and_never_sent_again(
    both: Both, key: str, proxy: Proxy, fault: Fault, call: str
) -> None:
    ask, error, times = CALLS[call]
    # Only what is swallowed has to be waited for.
    client = both(proxy.url, timeout=1 if fault == "swallow" else 10)
    client.run(add(key, 100))
    proxy.lose(fault, times=ALWAYS, marker=key.encode())
    with pytest.raises(error) as caught:
        ask(client, key)
    assert str(getattr(caught.value, "using", "")).startswith(f"redis:127.0.0.1:{proxy.port}/")
    assert proxy.times == ALWAYS - 1
    assert stands_at(key) == 100 + (0 if fault == "unsent" else times)


def test_after_a_lost_reply_the_next_answer_is_its_own(both: Both, key: str, proxy: Proxy) -> None:
    client = both(proxy.url, timeout=SHORT)
    client.run(add(key))
    proxy.lose("hold")
    with pytest.raises(OutcomeUnknown):
        client.run(add(key))
    # The late reply arrives, on a connection that nobody listens to any more.
    proxy.release.set()
    assert client.run(add(key)) == 3
    assert proxy.connections == 2


def test_a_connection_that_was_closed_meanwhile_is_made_again_before_anything_is_sent(
    key: str, proxy: Proxy
) -> None:
    client = fresh(proxy.url)
    client.run(add(key))
    proxy.cut()
    wire = next(iter(client._wires.idle.values()))
    assert eventually(wire.is_stale)
    assert client.run(add(key)) == 2
    assert proxy.connections == 2


@pytest.mark.parametrize(("many", "error"), [(1, CounterUnavailable), (2, OutcomeUnknown)])
def test_what_the_system_does_not_take_was_not_counted(
    key: str, monkeypatch: pytest.MonkeyPatch, many: int, error: type[CounterError]
) -> None:
    client = fresh()
    client.run(add(key))
    wire = next(iter(client._wires.idle.values()))
    # As if the connection was closed after it was looked at.
    wire._connection._sock.shutdown(1)
    monkeypatch.setattr(type(wire), "is_stale", lambda self: False)
    with pytest.raises(error):
        client.run_many([add(key)] * many)
    monkeypatch.undo()
    assert stands_at(key) == 1
    assert client.run(add(key)) == 2


def test_after_some_failures_nobody_waits_until_a_probe_gets_through(
    proxy: Proxy, key: str
) -> None:
    client = fresh(proxy.url, timeout=SHORT)
    client.run(add(key))
    proxy.lose("swallow", times=3)
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            client.run(add(key))
    made = proxy.connections
    with pytest.raises(CounterUnavailable, match="left alone"):
        client.run(add(key))
    assert proxy.connections == made
    # They were sent, and a busy proxy may still be about to hand them on.
    assert eventually(lambda: stands_at(key) >= 4)
    assert stands_at(key) == 4
    assert eventually(lambda: _gets_through(client, key))
    assert stands_at(key) == 5


def _gets_through(client: Client, key: str) -> bool:
    try:
        client.run(add(key))
    except CounterUnavailable:
        return False
    return True


def test_a_server_that_is_loading_counts_as_one_that_does_not_answer(both: Both, key: str) -> None:
    client = both()
    loading = Script("return redis.error_reply('LOADING it reads its data')")
    for _ in range(3):
        with pytest.raises(ServerRefused):
            client.run(ScriptRun(loading, (key,), ()))
    with pytest.raises(CounterUnavailable):
        client.run(add(key))


def test_other_refusals_do_not(both: Both, key: str) -> None:
    client = both()
    for _ in range(10):
        with pytest.raises(ServerRefused):
            client.run(ScriptRun(FAIL, (key,), ()))
    assert client.run(add(key)) == 1


def test_a_wrong_password_is_no_answer(both: Both, proxy: Proxy) -> None:
    client = both(f"redis://somebody:secret@127.0.0.1:{proxy.port}/0")
    with pytest.raises(CounterUnavailable) as caught:
        client.call("PING")
    assert "secret" not in str(caught.value) + client.name


@pytest.mark.rare
def test_threads_have_connections_of_their_own_which_end_with_them(key: str) -> None:
    url = named(os.environ["REDIS_URL"], key)
    client = fresh(url)
    together = threading.Barrier(8)

    def work() -> int:
        together.wait(60)
        client.run_many([add(key)] * 50)
        mine = int(client.call("CLIENT", "ID"))
        together.wait(60)
        return mine

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: work(), range(8)))
        assert sorted(connected(key)) == sorted(map(str, ids))
    assert len(set(ids)) == 8
    assert stands_at(key) == 400
    assert eventually(lambda: not connected(key))


@pytest.mark.rare
def test_close_closes_those_of_all_threads(key: str) -> None:
    client = fresh(named(os.environ["REDIS_URL"], key))
    with ThreadPoolExecutor(1) as pool:
        client.run(add(key))
        pool.submit(client.run, add(key)).result(60)
        assert len(connected(key)) == 2
        client.close()
        assert eventually(lambda: not connected(key))
        assert pool.submit(client.run, add(key)).result(60) == 3


def test_caches_of_another_test_keep_no_connection(key: str) -> None:
    """A suite that gives each test caches of its own would end without free connections."""
    location = named(os.environ["REDIS_URL"], key)
    for number in range(3):
        cache = {"BACKEND": DJANGO, "LOCATION": location, "KEY_PREFIX": f"{key}{number}"}
        with override_settings(CACHES={**settings.CACHES, "default": cache}):
            client_of(address_of("default", {"timeout": 10})).run(add(key))
            assert eventually(lambda: len(connected(key)) == 1)
    assert eventually(lambda: not connected(key))


@contextmanager
def disturbed(proxy: Proxy, handler: Callable[..., None]) -> Iterator[None]:
    """Send a signal while a reply is waited for."""

    def disturb() -> None:
        proxy.met.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        proxy.met.clear()
        threading.Thread(target=disturb).start()
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.rare
def test_who_counts_in_a_signal_handler_gets_another_connection(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url)
    client.run(add(key))
    proxy.lose("hold")
    inner: list[int] = []

    def handler(*_: object) -> None:
        inner.append(client.run(add(key, 10)))
        proxy.release.set()

    with disturbed(proxy, handler):
        assert client.run(add(key, 100)) == 101
    assert inner == [111]


@pytest.mark.rare
def test_an_interrupted_call_leaves_no_half_read_connection(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url)
    client.run(add(key))
    proxy.lose("hold")

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    with disturbed(proxy, handler), pytest.raises(KeyboardInterrupt):
        client.run(add(key, 100))
    proxy.release.set()
    assert client.run(add(key)) == 102
