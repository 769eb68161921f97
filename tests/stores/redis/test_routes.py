"""Which steps are taken, without taking them."""

from __future__ import annotations

import pytest

from django_counters.stores.redis.addresses import Node, address_of
from django_counters.stores.redis.commands import Lost, Refused, Request
from django_counters.stores.redis.routes import Ask, Wait, route_of, run

ONE, TWO = Node("a", 1), Node("b", 2)
REQUEST = Request("key", b"words")
TABLE = [[0, 16383, ["a", 1, "name", []]]]


def test_who_comes_while_somebody_loads_the_table_loads_it_too() -> None:
    route = route_of(address_of("redis+cluster://a:1,b:2"), len)
    first, second = run(route, REQUEST), run(route, REQUEST)
    asked = next(first)
    assert next(second) == asked
    assert isinstance(asked, Ask)
    assert first.send([TABLE]) == second.send([TABLE]) == Ask(ONE, b"words")


def test_a_table_is_asked_of_another_server_and_the_old_one_serves_meanwhile() -> None:
    route = route_of(address_of("redis+cluster://a:1,b:2"), len)
    flow = run(route, REQUEST)
    step = next(flow)
    assert isinstance(step, Ask)
    assert step.node == ONE
    step = flow.throw(Lost("gone", sent=False))
    assert isinstance(step, Ask)
    assert step.node == TWO
    assert flow.send([TABLE]) == Ask(ONE, b"words")
    route.failed(ONE)
    flow = run(route, REQUEST)
    for node in (TWO, ONE):
        step = next(flow) if node == TWO else flow.throw(Lost("gone", sent=False))
        assert isinstance(step, Ask)
        assert step.node == node
    assert flow.throw(Lost("gone", sent=False)) == Ask(ONE, b"words")


def test_servers_that_send_on_and_on_are_not_followed_for_ever() -> None:
    flow = run(route_of(address_of("redis+cluster://a:1"), len), REQUEST)
    next(flow)
    flow.send([TABLE])
    times = 0
    with pytest.raises(Lost, match="MOVED") as caught:
        while True:
            flow.send([Refused("MOVED", f"1 c:{times}")])
            times += 1
    assert not caught.value.sent
    assert times == 5


def test_a_slot_that_is_moving_is_waited_for_shortly() -> None:
    flow = run(route_of(address_of("redis+cluster://a:1"), len), REQUEST)
    next(flow)
    flow.send([TABLE])
    waited = 0.0
    step = flow.send([Refused("TRYAGAIN")])
    with pytest.raises(Lost):
        while True:
            assert isinstance(step, Wait)
            waited += step.seconds
            assert flow.send(None) == Ask(ONE, b"words")
            step = flow.send([Refused("TRYAGAIN")])
    assert 0 < waited <= 0.1
