"""Buffers whose files survive their process: what is in them is counted once, or not at all."""

from __future__ import annotations

import os
import random
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_counters import clock
from django_counters.contrib import buffers
from django_counters.contrib.buffers import buffer as module
from django_counters.contrib.buffers import files as writing
from django_counters.contrib.buffers import pages, process
from django_counters.contrib.buffers.adopting import _land, adopt, left
from django_counters.contrib.buffers.files import read
from django_counters.contrib.buffers.pages import SealedInterval, Serial, entry_in, text_of
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.series.options import SUM, period_cell
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.metrics.doctor import examine
from django_counters.metrics.samples import samples_of, scraping
from django_counters.models import Counter, CounterIncident, CounterPosition
from django_counters.stores.base import PartitionBusy
from django_counters.testing import override_counters
from django_counters.write.pages import STILL, Entries, Entry
from tests.buffers.buffering import landed
from tests.buffers.filing import _inner, _root, die, files, forked  # noqa: F401 - fixtures
from tests.concurrency.servers import others
from tests.redis.counting import eventually

# Of eight counters in four pages.
NUMBERS = [3, 1, 3, 1, 2, 0, 2, 0]
pytestmark = [pytest.mark.django_db(transaction=True)]


def test_it_waits_in_a_file_until_it_is_landed(root: Path) -> None:
    handle = buffers.handle("hits:home")
    for _ in range(3):
        handle.increment()
    Counter.objects.increment("hits:home", 4)
    Counter.objects.decrement("hits:about", 2)
    (file,) = files(root)
    assert read(file).entries == {"hits:home": 7, "hits:about": -2}
    assert Counter.objects.value("hits:home") == 7
    assert buffers.flush() == 2
    assert (landed(), landed("hits:about"), files(root)) == (7, -2, [])
    handle.increment()
    handle.increment()
    assert [read(one).entries for one in files(root)] == [{"hits:home": 2}]
    assert Counter.objects.value("hits:home") == 9


def test_a_process_that_lives_is_left_alone(root: Path) -> None:
    Counter.objects.increment("hits:home", 7)
    assert adopt() == (0, {}, {})
    assert (landed(), len(files(root))) == (0, 1)


def test_what_a_dead_process_left_is_counted_once(root: Path) -> None:
    for turn in range(3):
        for number in range(3):
            Counter.objects.increment(f"hits:{number}", 10**turn)
        Counter.objects.increment("hits:home", 10**turn)
        die()
    assert len(files(root)) == 3
    assert adopt().files == 3
    assert adopt() == (0, {}, {})
    assert [landed(f"hits:{number}") for number in range(3)] == [111, 111, 111]
    assert (landed(), list(root.iterdir())) == (111, [])


def test_cells_of_periods_and_tags(root: Path, inner: str) -> None:
    for country in ("de", "de", "fr"):
        Counter.objects.increment("seen:a", tags={"country": country})
    Counter.objects.increment("seen:a", 2, at=clock.utc() - timedelta(days=3))
    (file,) = files(root)
    (buffer,) = [one for _, one in present.those_of() if one.entries]
    assert read(file).entries == buffer.entries
    die()
    assert adopt().files == 1
    assert landed("seen:a") == 5


@pytest.mark.parametrize(
    "entry",
    [
        "hits:home",
        "[1]",
        "ü:ñ",
        ("a:b", ()),
        ("a:b", (period_cell(SUM, 1, 3, clock.utc().replace(microsecond=0), "x y"),)),
    ],
)
def test_the_text_of_an_entry(entry: Entry) -> None:
    assert entry_in(text_of(entry)) == entry


@pytest.mark.parametrize("inner", ["exact"], indirect=True)
def test_pages_are_the_same_in_every_process() -> None:
    """In whatever order they came, and with what came to nothing."""
    some: Entries = {f"hits:{number}": 1 for number in range(8)}
    more = {"hits:none": 0, **dict(reversed(some.items()))}
    for entries in (some, more):
        sealed = SealedInterval(dict(entries), Serial("0" * 32, 3), 2)
        assert [sealed.page(key).number - 3_000_000 for key in some] == NUMBERS


class TestTwice:
    """The same file is landed by two."""

    def test_it_has_landed_and_its_file_is_there(
        self, root: Path, inner: str, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(writing.File, "forget", writing.File.close)
        Counter.objects.increment("hits:home", 7)
        buffers.flush()
        assert (landed(), len(files(root))) == (7, 1)
        die()
        assert adopt().files == 1
        assert landed() == 7

    def test_the_adopter_was_faster(self, root: Path, inner: str, monkeypatch: Any) -> None:
        """The owner was stopped before he landed it, and somebody took him for dead."""
        made, turns = pages.InDatabase, list[int]()
        land = made.land

        def stopped(self: Any, page: Any) -> None:
            if not turns:
                turns.append(1)
                (file,) = files(root)
                other = root.parent / "elsewhere" / file.parent.name / file.name
                other.parent.mkdir(parents=True)
                other.write_bytes(file.read_bytes())
                with override_counters(
                    other={"BUFFER": {"directory": str(root.parent / "elsewhere")}}
                ):
                    turns.append(adopt().files)
            land(self, page)

        monkeypatch.setattr(made, "land", stopped)
        Counter.objects.increment("hits:home", 7)
        Counter.objects.increment("hits:b", 2)
        buffers.flush()
        assert turns == [1, 1]
        assert (landed(), landed("hits:b")) == (7, 2)

    def test_the_owner_was_faster(self, root: Path, inner: str, monkeypatch: Any) -> None:
        """Between the look of the adopter at the position and his landing."""
        made, turns = pages.InDatabase, list[int]()
        before = made._before

        def overtaken(self: Any, page: Any) -> str:
            found: str = before(self, page)
            if not turns:
                turns.append(1)
                buffers.flush()
            return found

        Counter.objects.increment("hits:home", 7)
        (file,) = files(root)
        found = read(file)
        monkeypatch.setattr(made, "_before", overtaken)
        with pytest.raises(PartitionBusy):
            _land(found)
        _land(found)
        assert (turns, landed()) == ([1], 7)

    def test_a_lost_answer(self, root: Path, inner: str, monkeypatch: Any) -> None:
        made = pages.InDatabase
        land = made.land

        def lose(self: Any, page: Any) -> None:
            land(self, page)
            raise OutcomeUnknown(using="default")

        Counter.objects.increment("hits:home", 7)
        with monkeypatch.context() as patch:
            patch.setattr(made, "land", lose)
            with pytest.raises(OutcomeUnknown):
                buffers.flush()
            assert Counter.objects.value("hits:home") == 7
        die()
        assert adopt().files == 1
        assert landed() == Counter.objects.value("hits:home") == 7

    def test_many_pages(self, root: Path, inner: str, monkeypatch: Any) -> None:
        """Each page has a number of its own, and somebody who lands the rest lands no other."""
        made = pages.InDatabase
        monkeypatch.setattr(made, "size", 2)
        land, turns = made.land, list[int]()

        def away(self: Any, page: Any) -> None:
            turns.append(1)
            if len(turns) > 3:
                raise CounterUnavailable(using="default", reason="away")
            land(self, page)

        keys = [f"hits:{number}" for number in range(40)]
        for key in keys:
            Counter.objects.increment(key)
        with monkeypatch.context() as patch:
            patch.setattr(made, "land", away)
            with pytest.raises(CounterUnavailable):
                buffers.flush()
        some = sum(landed(key) for key in keys)
        assert 0 < some < 40
        die()
        assert adopt().files == 1
        assert {landed(key) for key in keys} == {1}


@pytest.mark.rare
class TestForks:
    """A child begins anew. It ends without a word, as if it were killed."""

    def test_it_writes_into_a_file_of_its_own(self, root: Path) -> None:
        handle = buffers.handle("hits:home")
        for _ in range(5):
            handle.increment()
        with forked() as child:
            if child is None:
                for _ in range(3):
                    handle.increment()
        assert sorted(read(file).entries["hits:home"] for file in files(root)) == [3, 5]
        assert adopt().files == 1
        assert (landed(), Counter.objects.value("hits:home")) == (3, 8)
        buffers.flush()
        assert landed() == 8

    def test_it_holds_no_lock_of_its_parent(self, root: Path) -> None:
        Counter.objects.increment("hits:home", 5)
        with forked(waits=True) as child:
            if child is not None:
                die()
                assert adopt().files == 1
                assert landed() == 5

    def test_what_is_open_while_it_is_forked_is_closed(self, root: Path) -> None:
        Counter.objects.increment("hits:home", 5)
        (file,) = files(root)
        with forked() as child:
            if child is None:
                # An exception there ends it with another status.
                assert not [buffer for _, buffer in present.those_of() if buffer.entries]
                open_ = [
                    os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                ]
                assert str(file) not in open_
                assert str(file.parent) not in open_


@pytest.mark.parametrize("inner", ["exact"], indirect=True)
def test_a_file_that_is_older_than_what_is_remembered(root: Path, monkeypatch: Any) -> None:
    """Nobody knows whether it has landed: it becomes an incident, and is counted by nobody."""
    incident = adopted_after(timedelta(days=29), root, monkeypatch)
    assert incident.detail["reason"] == "expired"


def adopted_after(age: timedelta, root: Path, monkeypatch: Any) -> CounterIncident:
    """The incident that a file of such an age becomes."""
    long_ago = clock.utc() - age
    with monkeypatch.context() as patch:
        patch.setattr(clock, "utc", lambda: long_ago)
        Counter.objects.increment("hits:home", 7)
    die()
    assert adopt().files == 1
    assert (landed(), files(root)) == (0, [])
    (incident,) = CounterIncident.objects.all()
    assert incident.detail["amounts"] == {"hits:home": 7}
    return incident


def test_the_command_and_what_tells_of_files(root: Path, inner: str, capsys: Any) -> None:
    for number in range(3):
        Counter.objects.increment(f"hits:{number}", 5)
    die()
    (found,) = [one for one in examine() if one.subject == "files of buffers"]
    assert list(left("other")) == []
    assert (found.strategy, found.rows, found.counters, found.needed) == (inner, 1, 3, False)
    *_, scrape = scraping("default")
    told = [one.value for one in samples_of(scrape) if one.metric.name.endswith("left_files")]
    assert told == [1]
    strange = root / ("0" * 32)
    strange.mkdir()
    (strange / f"{1:016d}").write_text("mine")
    assert [one.needed for one in examine() if one.subject.startswith(str(strange))] == [True]
    with pytest.raises(CommandError, match="it is no file of a buffer"):
        call_command("counters", "upkeep", "buffers")
    assert capsys.readouterr().out == "1 files landed\n"
    assert landed("hits:0") == 5
    assert not [one for one in examine() if one.subject == "files of buffers"]


@pytest.mark.many_writers
def test_a_living_process_adopts(root: Path, monkeypatch: Any) -> None:
    # A thread of an earlier test may have one.
    connected = others()
    Counter.objects.increment("hits:home", 7)
    die()
    monkeypatch.setattr(process, "adopt", adopt)
    present._adopter._at = 0.0
    dice = random.getstate()
    present._adopter.worker.wake()
    Counter.objects.increment("hits:other")
    # Nothing of it is in the buffer of this process.
    assert eventually(lambda: Counter.objects.value("hits:home") == 7, 60)
    # A site that seeds `random` gets the numbers of its seed.
    assert random.getstate() == dice
    # The next time is far away, and the connection is not kept until then.
    assert eventually(lambda: others() <= connected, 60)


@pytest.mark.many_writers
def test_it_is_read_while_it_is_landed(root: Path) -> None:
    over, wrong, reads = threading.Event(), list[tuple[int, int, int]](), list[int]()
    begun = [0]

    def look() -> None:
        while not over.is_set():
            low = done[0]
            value = Counter.objects.value("hits:home")
            reads.append(value)
            if not low <= value <= begun[0]:
                wrong.append((low, value, begun[0]))
        connections.close_all()

    done = [0]
    reader = threading.Thread(target=look)
    reader.start()
    handle = buffers.handle("hits:home")
    landings = 0
    until = time.monotonic() + 60
    while (landings < 60 or len(reads) < 60) and time.monotonic() < until:
        for _ in range(20):
            begun[0] += 1
            handle.increment()
            done[0] += 1
        landings += bool(buffers.flush())
    over.set()
    reader.join()
    assert not wrong
    assert min(landings, len(reads)) >= 60
    assert landed() == done[0]


def test_a_buffer_that_was_still_begins_a_new_history(
    root: Path, inner: str, monkeypatch: Any
) -> None:
    homes = set()
    for still in (STILL, timedelta(seconds=-1), STILL):
        monkeypatch.setattr(module, "STILL", still)
        Counter.objects.increment("hits:home")
        (file,) = files(root)
        homes.add(file.parent)
        buffers.flush()
    assert landed() == 3
    assert [home for home in homes if home.exists()] == [file.parent]
    assert CounterPosition.objects.filter(source="buffer").count() == len(homes) == 2
