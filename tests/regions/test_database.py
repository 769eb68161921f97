"""What a region asks of another one, and the only thing that it changes there."""

from __future__ import annotations

import pytest

from django_counters.contrib.regions.marks import IncarnationMark, Label, PeerAway
from django_counters.contrib.regions.peers import DatabasePeer
from django_counters.contrib.regions.sql import CLOSED, Incarnation, store_of
from django_counters.models import CounterPosition
from tests.regions.regions import EU, US, _regional, exchange, says  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])
THERE = DatabasePeer("other")


def labels() -> dict[str, str]:
    rows = CounterPosition.objects.using("other").filter(source="region eu")
    return dict(rows.values_list("part", "timeline"))


def test_a_database_is_home_of_what_it_has_published() -> None:
    assert THERE.homes() == {}
    EU.count("likes:x", 3)
    EU.publish()
    assert DatabasePeer("default").homes() == {"eu": DatabasePeer("default").marks("eu")}
    # A greeting alone makes a row without a position.
    assert THERE.marks("eu")[1].position == 0
    assert THERE.homes() == {}
    US.pull()
    assert THERE.marks("eu")[1].position == 1
    assert THERE.homes() == {}
    US.count("likes:x")
    US.publish()
    assert list(THERE.homes()) == ["us"]


def test_the_incarnation_that_has_just_begun_is_at_home_too() -> None:
    EU.count("likes:x", 3)
    exchange(EU, US)
    EU.restore([(table, rows[:0]) for table, rows in EU.backup()])
    EU.fence()
    home = DatabasePeer("default").homes()["eu"]
    assert {number: at.timeline == CLOSED for number, at in home.items()} == {1: True, 2: False}


def test_it_is_heard_when_something_was_copied() -> None:
    EU.count("likes:x")
    EU.publish()
    assert THERE.heard("eu") is None
    US.pull()
    row = CounterPosition.objects.using("other").get(part="1", source="region eu")
    assert THERE.heard("eu") == row.moved_at


def test_an_incarnation_that_has_ended_stays_so() -> None:
    THERE.close("eu", range(1, 2), says("life"))
    assert labels() == {"1": CLOSED, "2": "life"}
    assert THERE.greet(Incarnation("eu", 1), says("another life"))[1].timeline == CLOSED
    with pytest.raises(PeerAway):
        THERE.relabel("eu", [Label(1, CLOSED, "another life")], store_of("other").life())
    assert labels() == {"1": CLOSED, "2": "life"}


def test_a_label_is_changed_from_what_was_read_or_not_at_all() -> None:
    life = store_of("other").life()
    assert THERE.greet(Incarnation("eu", 1), says("a life")) == {
        1: IncarnationMark(timeline="a life")
    }
    assert THERE.relabel("eu", [Label(1, "", "a life")], life) == {
        1: IncarnationMark(timeline="a life")
    }
    with pytest.raises(PeerAway, match="another process"):
        THERE.relabel("eu", [Label(2, "", "b"), Label(1, "", "b")], life)
    with pytest.raises(PeerAway, match="was started"):
        THERE.relabel("eu", [Label(1, "a life", "b")], f"not {life}")
    assert labels() == {"1": "a life"}


def test_who_comes_late_tells_no_former_life() -> None:
    """A life is asked for after the label was read: so no label comes back."""

    def meanwhile() -> str:
        THERE.greet(Incarnation("eu", 1), says("second"))
        return "first"

    for change in (
        lambda: THERE.greet(Incarnation("eu", 1), meanwhile),
        lambda: THERE.close("eu", range(0, 1), meanwhile),
    ):
        CounterPosition.objects.using("other").all().delete()
        with pytest.raises(PeerAway, match="another process"):
            change()
        assert labels() == {"1": "second"}
