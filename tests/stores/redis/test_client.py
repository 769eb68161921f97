"""The connections of threads: what is executed, how often, and what is known about it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from django_counters.exceptions import CounterError, CounterUnavailable, OutcomeUnknown
from django_counters.stores.redis.client import Client, Refused
from django_counters.stores.redis.commands import Command
from django_counters.stores.redis.scripts import Script
from tests.stores.redis.counting import FAIL, add, connected, eventually, fresh, named, stands_at
from tests.stores.redis.proxy import Fault, Proxy

LOSING: list[Fault] = ["swallow", "close", "reset", "half"]
# More than any client would try again.
ALWAYS = 50
SHORT = 0.2


def test_a_script_is_run_and_answers(key: str) -> None:
    client = fresh()
    assert [client.run(add(key, 2)), client.run(add(key, 3))] == [2, 5]
    assert stands_at(key) == 5


def test_a_script_that_the_server_has_forgotten_is_run_once(key: str) -> None:
    script = Script(f"return redis.call('INCRBY', KEYS[1], ARGV[1]) -- {key}")
    command = Command(script, (key,), (1,))
    client = fresh()
    assert [client.run(command), client.run(command)] == [1, 2]
    again = Command(Script(script.text + "!"), (key,), (1,))
    assert client.run_many([again, add(key), again]) == [4, 3, 5]
    assert stands_at(key) == 5


def test_texts_are_texts_and_other_bytes_stay_bytes(key: str) -> None:
    client = fresh()
    client.call("HSET", key, "ä", b"\xff", "n", 7, reads=False)
    assert client.call("HGETALL", key) == ["ä", b"\xff", "n", "7"]
    assert client.call("HSCAN", key, 0) == ["0", ["ä", b"\xff", "n", "7"]]
    assert client.call("HGET", key, "missing") is None


def test_an_error_of_the_server_is_refused_and_the_connection_is_kept(key: str) -> None:
    client = fresh()
    with pytest.raises(Refused) as caught:
        client.run(Command(FAIL, (key,), ()))
    assert (caught.value.code, caught.value.message) == ("RINGFULL", "no place is free")
    before = client.call("CLIENT", "ID")
    replies = client.run_many([add(key), Command(FAIL, (key,), ()), add(key)])
    assert [replies[0], replies[2]] == [1, 2]
    assert isinstance(replies[1], Refused)
    with pytest.raises(Refused, match="WRONGTYPE"):
        client.call("HGET", key, "field")
    assert client.call("CLIENT", "ID") == before


@pytest.mark.parametrize("text", ["LOADING it reads its data", "NOAUTH log in first"])
def test_an_error_that_redis_py_takes_for_a_lost_connection_is_an_answer(
    key: str, text: str
) -> None:
    script = Script(f"redis.call('INCR', KEYS[1]); return redis.error_reply('{text}')")
    with pytest.raises(Refused) as caught:
        fresh().run(Command(script, (key,), ()))
    assert str(caught.value) == text


def test_no_command_at_all() -> None:
    assert fresh().run_many([]) == []


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
        assert running.result(10) == list(range(2, 22))
    assert proxy.times == ALWAYS - 1


@pytest.mark.parametrize("fault", LOSING)
def test_a_lost_reply_is_unknown_and_never_sent_again(key: str, proxy: Proxy, fault: Fault) -> None:
    client = fresh(proxy.url, timeout=SHORT)
    client.run(add(key, 100))
    proxy.lose(fault, times=ALWAYS)
    with pytest.raises(OutcomeUnknown) as caught:
        client.run(add(key))
    assert caught.value.using.startswith(f"redis:127.0.0.1:{proxy.port}/")
    assert proxy.times == ALWAYS - 1
    assert stands_at(key) == 101


@pytest.mark.parametrize("fault", LOSING)
def test_lost_replies_of_many_are_unknown_and_never_sent_again(
    key: str, proxy: Proxy, fault: Fault
) -> None:
    client = fresh(proxy.url, timeout=SHORT)
    client.run(add(key, 100))
    proxy.lose(fault, times=ALWAYS)
    with pytest.raises(OutcomeUnknown):
        client.run_many([add(key)] * 3)
    assert proxy.times == ALWAYS - 1
    assert stands_at(key) == 103


@pytest.mark.parametrize(("reads", "error"), [(True, CounterUnavailable), (False, OutcomeUnknown)])
@pytest.mark.parametrize("fault", LOSING)
def test_a_lost_reply_to_a_plain_command(
    key: str, proxy: Proxy, fault: Fault, reads: bool, error: type[CounterError]
) -> None:
    client = fresh(proxy.url, timeout=SHORT)
    client.call("PING")
    proxy.lose(fault, times=ALWAYS, marker=b"INCRBY")
    with pytest.raises(error):
        client.call("INCRBY", key, 1, reads=reads)
    assert proxy.times == ALWAYS - 1
    assert stands_at(key) == 1


def test_the_proxy_would_notice_a_client_that_tries_again(key: str, proxy: Proxy) -> None:
    retry = Retry(NoBackoff(), 3)
    errors: list[type[Exception]] = [redis.ConnectionError, redis.TimeoutError]
    eager = redis.Redis.from_url(proxy.url, retry=retry, retry_on_error=errors)
    eager.ping()
    proxy.lose("close", times=2, marker=b"INCRBY")
    assert eager.incrby(key, 1) == 3
    eager.close()


def test_after_a_lost_reply_the_next_answer_is_its_own(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url, timeout=SHORT)
    client.run(add(key))
    proxy.lose("hold")
    with pytest.raises(OutcomeUnknown):
        client.run(add(key))
    # The late reply arrives, on a connection that nobody listens to any more.
    proxy.release.set()
    assert client.run(add(key)) == 3
    assert proxy.connections == 2


def test_a_request_that_never_arrived_is_unknown_too(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url, timeout=SHORT)
    client.run(add(key))
    proxy.lose("unsent")
    with pytest.raises(OutcomeUnknown):
        client.run(add(key))
    assert stands_at(key) == 1


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


def test_nobody_listens(proxy: Proxy, key: str) -> None:
    client = fresh(proxy.url)
    proxy.stop()
    calls: list[Callable[[], Any]] = [
        lambda: client.run(add(key)),
        lambda: client.run_many([add(key)] * 2),
        lambda: client.call("GET", key),
        lambda: client.call("SET", key, 1, reads=False),
    ]
    for call in calls:
        with pytest.raises(CounterUnavailable) as caught:
            call()
        assert caught.value.__cause__ is not None
    assert stands_at(key) == 0


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
    assert stands_at(key) == 4
    assert eventually(lambda: _gets_through(client, key))
    assert stands_at(key) == 5


def _gets_through(client: Client, key: str) -> bool:
    try:
        client.run(add(key))
    except CounterUnavailable:
        return False
    return True


def test_a_server_that_is_loading_counts_as_one_that_does_not_answer(key: str) -> None:
    client = fresh()
    loading = Script("return redis.error_reply('LOADING it reads its data')")
    for _ in range(3):
        with pytest.raises(Refused):
            client.run(Command(loading, (key,), ()))
    with pytest.raises(CounterUnavailable):
        client.run(add(key))


def test_other_refusals_do_not(key: str) -> None:
    client = fresh()
    for _ in range(10):
        with pytest.raises(Refused):
            client.run(Command(FAIL, (key,), ()))
    assert client.run(add(key)) == 1


def test_a_wrong_password_is_no_answer(proxy: Proxy) -> None:
    client = fresh(f"redis://somebody:secret@127.0.0.1:{proxy.port}/0")
    with pytest.raises(CounterUnavailable) as caught:
        client.call("PING")
    assert "secret" not in str(caught.value) + client.name


def test_threads_have_connections_of_their_own_which_end_with_them(key: str) -> None:
    url = named(os.environ["REDIS_URL"], key)
    client = fresh(url)
    together = threading.Barrier(8)

    def work() -> int:
        together.wait(10)
        client.run_many([add(key)] * 50)
        mine = int(client.call("CLIENT", "ID"))
        together.wait(10)
        return mine

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: work(), range(8)))
        assert sorted(connected(key)) == sorted(map(str, ids))
    assert len(set(ids)) == 8
    assert stands_at(key) == 400
    assert eventually(lambda: not connected(key))


def test_close_closes_those_of_all_threads(key: str) -> None:
    client = fresh(named(os.environ["REDIS_URL"], key))
    with ThreadPoolExecutor(1) as pool:
        client.run(add(key))
        pool.submit(client.run, add(key)).result(10)
        assert len(connected(key)) == 2
        client.close()
        assert eventually(lambda: not connected(key))
        assert pool.submit(client.run, add(key)).result(10) == 3


def _disturb(proxy: Proxy) -> None:
    """Send a signal while the reply is waited for."""
    proxy.met.wait(10)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def test_who_counts_in_a_signal_handler_gets_another_connection(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url)
    client.run(add(key))
    proxy.lose("hold")
    inner: list[int] = []

    def handler(*_: object) -> None:
        inner.append(client.run(add(key, 10)))
        proxy.release.set()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        proxy.met.clear()
        threading.Thread(target=_disturb, args=(proxy,)).start()
        assert client.run(add(key, 100)) == 101
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert inner == [111]


def test_an_interrupted_call_leaves_no_half_read_connection(key: str, proxy: Proxy) -> None:
    client = fresh(proxy.url)
    client.run(add(key))
    proxy.lose("hold")

    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        proxy.met.clear()
        threading.Thread(target=_disturb, args=(proxy,)).start()
        with pytest.raises(KeyboardInterrupt):
            client.run(add(key, 100))
    finally:
        signal.signal(signal.SIGUSR1, before)
    proxy.release.set()
    assert client.run(add(key)) == 102
