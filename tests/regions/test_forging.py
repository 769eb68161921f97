"""What somebody can do who stands between two regions, and does not know their secret: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_counters.contrib.regions.answering import LARGEST_REQUEST
from django_counters.contrib.regions.errors import RegionAway
from django_counters.contrib.regions.marks import PeerAway
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.peers import HttpPeer
from django_counters.contrib.regions.sql import Incarnation, store_of
from django_counters.contrib.regions.wire import answer_signature, request_signature
from django_counters.models import (
    CounterPosition,
)
from tests.regions.between import Between, Said, eu_asks, send, signed
from tests.regions.regions import EU, US, _regional, exchange, says  # noqa: F401 - a fixture
from tests.regions.serving import SECRET, over_http

pytestmark = pytest.mark.django_db(databases=["default", "other"])
GREETING = {"from": "eu", "to": "us", "nonce": "n", "ask": "relabel", "region": "eu"}


@pytest.fixture(name="between")
def _between() -> Between:
    return Between()


@pytest.fixture(name="address")
def _address(db: None, between: Between) -> Iterator[str]:
    with over_http(between) as address:
        yield address


def rows() -> list[Any]:
    """All that a region may change in another one."""
    tables = (CounterPosition, CounterRegion)
    return [list(table._base_manager.using("other").order_by("pk").values()) for table in tables]


def greeting(**others: Any) -> dict[str, Any]:
    """A request that changes a label, if nobody minds."""
    life = store_of("other").life()
    return {**GREETING, "labels": [[1, "", "a life"]], "life": life, **others}


def test_a_request_that_is_sent_again_changes_nothing(address: str, between: Between) -> None:
    """Whatever was said in between, and however late."""
    asked = eu_asks(address)
    steps: list[Callable[[], object]] = [
        lambda: asked.greet(Incarnation("eu", 1), says("first")),
        lambda: asked.greet(Incarnation("eu", 1), says("second")),
        lambda: asked.close("eu", range(1, 2), says("second")),
        lambda: asked.greet(Incarnation("eu", 2), says("third")),
        lambda: asked.close("eu", range(2, 4), says("fourth")),
    ]
    seen = [rows()]
    for step in steps:
        step()
        seen.append(rows())
        assert seen[-1] != seen[-2]
        for said in list(between.requests):
            assert send(f"{address}us/", said).status in (200, 409)
            assert rows() == seen[-1]


def test_a_request_of_a_former_life_of_the_server_changes_nothing(address: str) -> None:
    """So the same labels may be there again: it was restored, too."""
    before = rows()
    answered = send(f"{address}us/", signed(greeting(life="a former life")))
    assert answered.status == 409
    assert rows() == before
    assert send(f"{address}us/", signed(greeting())).status == 200
    assert rows() != before


@pytest.mark.parametrize("secret", [SECRET[:-1], SECRET.upper(), ""])
def test_who_does_not_know_the_secret_is_told_nothing(address: str, secret: str) -> None:
    before = rows()
    assert send(f"{address}us/", signed(greeting(), secret)) == (403, b"", "")
    assert rows() == before


def test_each_byte_of_a_request_counts(address: str) -> None:
    before, said = rows(), signed(greeting())
    for at in range(len(said.body)):
        changed = bytearray(said.body)
        changed[at] ^= 1
        assert send(f"{address}us/", Said(bytes(changed), said.signature)).status == 403
    for wrong in ("", "é", said.signature[:-1], answer_signature(SECRET, "", said.body)):
        assert send(f"{address}us/", Said(said.body, wrong)).status == 403
    assert rows() == before
    assert send(f"{address}us/", said).status == 200


def test_an_answer_that_was_changed_is_not_believed(address: str, between: Between) -> None:
    EU.count("likes:x", 3)
    EU.publish()
    US.count("likes:x", 4)
    US.publish()
    between.instead = lambda said: Said(said.body.replace(b"4", b"5"), said.signature)
    assert "not signed with the secret" in EU.pull()["us"].problem
    between.instead = lambda said: Said(said.body + b" ", said.signature)
    with pytest.raises(RegionAway, match="not signed with the secret"):
        EU.fence()
    between.instead = lambda said: said
    assert not EU.pull()["us"].problem
    assert EU.value("likes:x") == 7


def test_an_answer_to_another_request_is_not_believed(address: str, between: Between) -> None:
    """Not even to the same question."""
    asked = eu_asks(address)
    asked.marks("eu")
    (earlier,) = between.answers
    between.instead = lambda said: earlier
    with pytest.raises(PeerAway, match="not signed with the secret"):
        asked.marks("eu")


def test_a_request_is_no_answer(address: str, between: Between) -> None:
    between.instead = lambda said: between.requests[-1]
    with pytest.raises(PeerAway, match="not signed with the secret"):
        eu_asks(address).marks("eu")


def test_another_region_is_not_taken_for_the_one_that_is_asked(address: str) -> None:
    with pytest.raises(PeerAway, match="the region at its address is us"):
        HttpPeer(f"{address}us/", "eu", "ap", SECRET).marks("eu")
    with pytest.raises(PeerAway, match="is us itself"):
        HttpPeer(f"{address}us/", "us", "us", SECRET).marks("us")


@pytest.mark.parametrize("region", ["us", "ap", "eu "])
def test_a_region_greets_for_itself_alone(address: str, region: str) -> None:
    before = rows()
    answered = send(f"{address}us/", signed(greeting(region=region)))
    assert answered.status == 403
    assert b"for itself alone" in answered.body
    assert rows() == before


def test_nobody_greets_for_a_region_by_its_former_name() -> None:
    US.count("likes:x")
    US.publish()
    with over_http(names={"us": "usa"}) as renamed:
        before = rows()
        asked = {"from": "us", "region": "us", "to": "usa"}
        assert send(f"{renamed}us/", signed(greeting(**asked))).status == 403
        assert rows() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": None},
        {"labels": [[1, "", "x" * 256]]},
        {"labels": [[1, "", "\0"]]},
        {"labels": [[1, "", 5]]},
        {"labels": [[True, "", "x"]]},
        {"labels": [[1.0, "", "x"]]},
        {"labels": [["1", "", "x"]]},
        {"labels": [[0, "", "x"]]},
        {"labels": [[2**31, "", "x"]]},
        {"labels": [[1, ""]]},
        {"labels": {"1": "x"}},
        {"life": None},
        {"ask": "drop"},
        {"ask": ["relabel"]},
        {"region": None},
        {"region": "x" * 61},
        {"to": 1},
        {"from": None},
    ],
    ids=str,
)
def test_a_request_that_makes_no_sense_changes_nothing(address: str, wrong: Any) -> None:
    before = rows()
    answered = send(f"{address}us/", signed(greeting(**wrong)))
    assert answered.status == 400
    assert answered.signature
    assert rows() == before


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 50_000, b"1" * 5_000])
def test_a_body_that_is_no_message_is_refused(address: str, body: bytes) -> None:
    said = Said(body, request_signature(SECRET, body))
    assert send(f"{address}us/", said).status == 400


def test_a_request_that_is_too_large_is_refused(address: str) -> None:
    body = signed(greeting()).body.ljust(LARGEST_REQUEST)
    for more, status in ((b"", 200), (b" ", 403)):
        said = Said(body + more, request_signature(SECRET, body + more))
        assert send(f"{address}us/", said).status == status


def test_an_exchange_survives_all_of_it(address: str, between: Between) -> None:
    """Sent again after each step, old requests count nothing, and take nothing."""
    for amount in range(1, 4):
        EU.count("likes:x", amount)
        US.count("likes:x", 10 * amount)
        exchange(EU, US)
        for said in list(between.requests):
            to = "us" if b'"to":"us"' in said.body else "eu"
            send(f"{address}{to}/", said)
    exchange(EU, US)
    assert (EU.value("likes:x"), US.value("likes:x")) == (66, 66)
