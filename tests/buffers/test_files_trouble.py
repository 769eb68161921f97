"""Files of buffers that are damaged or strange, and disks that have no room for them."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import modify_settings

from django_counters.contrib import buffers
from django_counters.contrib.buffers import files as writing
from django_counters.contrib.buffers import pages
from django_counters.contrib.buffers.adopting import adopt, left
from django_counters.contrib.buffers.buffer import NOTHING
from django_counters.contrib.buffers.files import File, Foreign, Head, Origin, Unreadable, read
from django_counters.contrib.buffers.process import buffers as present
from django_counters.errors import CounterUnavailable
from django_counters.metrics.doctor import examine
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.types import INT8
from django_counters.write.pages import Entry
from tests.buffers.buffering import LATER, landed
from tests.buffers.filing import _inner, _root, die, files  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(transaction=True)]


def elsewhere(file: Path, folder: Path) -> Path:
    """The place of a copy: a file is known by the names of its directory and of itself."""
    place = folder / file.parent.name / file.name
    place.parent.mkdir()
    return place


def crafted_head(**to: Any) -> Callable[[Path, Head], None]:
    """Make a file with another head."""

    def make(path: Path, head: Head) -> None:
        origin = {name: to.pop(name) for name in Origin._fields if name in to}
        own = {"incarnation": path.parent.name, "number": 1, **to}
        made = File(path, head._replace(origin=head.origin._replace(**origin), **own), 10)
        made.cells[made.write("hits:home") or 0] = 3
        made.close()

    return make


def crafted_name(text: bytes) -> Callable[[Path, Head], None]:
    """Make a file with a counter of another name."""

    class Name(str):
        def encode(self, *_: Any) -> bytes:
            return text

    def make(path: Path, head: Head) -> None:
        made = File(path, head._replace(incarnation=path.parent.name, number=1), 10)
        made.cells[made.write(Name("x")) or 0] = 3
        made.close()

    return make


CRAFTED: dict[str, Callable[[Path, Head], None]] = {
    "bytes": crafted_name(b"\xff\xfe"),
    "json": crafted_name(b"[1, "),
    "one": crafted_name(b"[1 ]"),
    "list": crafted_name(b'[["a"], [[1, 2, 3, 4, 5, 6]]]'),
    "numbers": crafted_name(b'["hits:a", [[1, 3, 1e300, "", 0, ""]]]'),
    "deep": crafted_name(b"[ " * 20_000),
    "key": crafted_name(b"a\nb"),
    "time": crafted_head(milliseconds=2**62),
    "number": crafted_head(number=2**63),
    "options": crafted_head(options=["a"]),
    "option": crafted_head(strategy="sharded", options={"shards": ["a"]}),
    "owner": crafted_head(),
}


@pytest.mark.parametrize("inner", ["exact"], indirect=True)
class TestDamage:
    """Files that are not as their process has left them."""

    def small(self, root: Path) -> tuple[Path, dict[Entry, int]]:
        for number in range(1, 6):
            Counter.objects.increment(f"hits:{number}", number)
        Counter.objects.increment("seen:ü", 6, tags={"country": "de"})
        return max(
            ((file, read(file).entries) for file in files(root)), key=lambda one: len(one[1])
        )

    def test_it_is_cut_anywhere(self, root: Path, tmp_path: Path) -> None:
        file, whole = self.small(root)
        data, cut = file.read_bytes().rstrip(b"\0") + bytes(16), elsewhere(file, tmp_path)
        found: set[int] = set()
        for end in range(len(data)):
            cut.write_bytes(data[:end])
            try:
                entries = read(cut).entries
            except Foreign:
                continue
            assert list(entries.items()) == list(whole.items())[: len(entries)]
            found.add(len(entries))
        assert found == set(range(len(whole) + 1))

    def test_a_byte_is_another(self, root: Path, tmp_path: Path) -> None:
        """No counter gets the amount of another one. An amount itself is not checked."""
        file, whole = self.small(root)
        data = bytearray(file.read_bytes().rstrip(b"\0") + bytes(16))
        other = elsewhere(file, tmp_path)
        for at in range(len(data)):
            for bit in (1, 0x80):
                data[at] ^= bit
                other.write_bytes(data)
                data[at] ^= bit
                try:
                    entries = read(other).entries
                except Unreadable:
                    continue
                assert entries.keys() <= whole.keys(), at
                assert sum(entries[key] != whole[key] for key in entries) <= 1

    @pytest.mark.parametrize("kind", ["foreign", "damaged", "version", "database", "strategy"])
    def test_what_is_strange_is_left_alone(
        self, root: Path, kind: str, monkeypatch: Any, caplog: Any
    ) -> None:
        Counter.objects.increment("hits:home", 7)
        (file,) = files(root)
        die()
        data = bytearray(file.read_bytes())
        if kind == "foreign":
            data[:4] = b"GIF8"
        elif kind == "damaged":
            data[30] ^= 1
        elif kind == "version":
            data[8] += 1
        else:
            head = read(file).head
            to: dict[str, Any] = (
                {"using": "elsewhere"} if kind == "database" else {"strategy": "sharp"}
            )
            file.unlink()
            writing.File(file, head._replace(origin=head.origin._replace(**to)), 10).close()
            data = bytearray(file.read_bytes())
        file.write_bytes(data)
        for _ in range(2):
            report = adopt()
            assert (report.files, list(report.strange), report.failed) == (0, [str(file)], {})
        assert (landed(), file.read_bytes()) == (0, bytes(data))
        assert [one.path for one in left("default")] == [file]
        assert CounterIncident.objects.count() == 0

    @pytest.mark.parametrize("kind", list(CRAFTED))
    def test_a_crafted_file_stops_nothing(self, root: Path, kind: str, caplog: Any) -> None:
        """Its checks are right, and what is in it is not."""
        if kind == "owner" and os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        Counter.objects.increment("hits:home", 7)
        (file,) = files(root)
        crafted = root / ("0" * 32) / f"{1:016d}"
        crafted.parent.mkdir(0o700)
        CRAFTED[kind](crafted, read(file).head)
        die()
        if kind == "owner":
            os.chown(crafted, 12345, 12345)
        report = adopt()
        assert (report.files, landed()) == (1, 7)
        assert list({**report.strange, **report.failed}) == [str(crafted)]
        assert crafted.exists()
        told = [one for one in examine() if "buffers" in one.subject or str(root) in one.subject]
        assert told, "counters doctor says nothing"
        with pytest.raises(CommandError, match=str(crafted)):
            call_command("counters", "upkeep", "buffers")

    def test_a_file_in_another_place_is_left_alone(self, root: Path) -> None:
        """It would move the history of the buffer that it names."""
        Counter.objects.increment("hits:home", 7)
        (file,) = files(root)
        copy = root / ("0" * 32) / file.name
        copy.parent.mkdir(0o700)
        File(copy, read(file).head._replace(number=1), 10).close()
        assert list(adopt().strange) == [str(copy)]
        buffers.flush()
        assert landed() == 7

    def test_a_later_file_waits_for_one_of_another_version(self, root: Path) -> None:
        for _ in range(2):
            Counter.objects.increment("hits:home", 7)
            (buffer,) = [one for _, one in present.those_of() if one.entries]
            # As if it were sealed, and not landed.
            buffer.interval = NOTHING
        first, second = files(root)
        die()
        data = bytearray(first.read_bytes())
        data[8] += 1
        first.write_bytes(data)
        assert adopt().files == 0
        assert files(root) == [first, second]
        data[8] -= 1
        first.write_bytes(data)
        assert adopt().files == 2
        assert landed() == 14

    def test_a_later_file_waits_for_one_of_an_absent_app(self, root: Path) -> None:
        Counter.objects.increment("seen:home", 7)
        (first,) = files(root)
        head = read(first).head
        die()
        second = first.with_name(f"{head.number + 1:016d}")
        made = File(second, head._replace(number=head.number + 1), 10)
        made.cells[made.write("seen:home") or 0] = 7
        made.close()
        absent = [f"django_counters.contrib.{name}" for name in ("series", "top", "uniques")]
        plain = {"BUFFER": {**LATER, "directory": str(root)}}
        with (
            modify_settings(INSTALLED_APPS={"remove": absent}),
            override_counters(hits=plain, seen=plain),
        ):
            report = adopt()
        problem = "no installed app has the kind 'sum': add its app to INSTALLED_APPS"
        assert report == (0, {str(first): problem}, {})
        assert files(root) == [first, second]
        assert adopt().files == 2
        assert landed("seen:home") == 14

    def test_other_things_in_the_directory(self, root: Path) -> None:
        Counter.objects.increment("hits:home", 7)
        (file,) = files(root)
        notes = [root / "README", file.parent / "notes.txt", root / ".hidden"]
        for note in notes:
            note.write_text("mine")
        die()
        assert adopt() == (1, {}, {})
        assert landed() == 7
        assert [note.read_text() for note in notes] == ["mine"] * 3


@pytest.mark.parametrize("inner", ["exact"], indirect=True)
class TestWithoutRoom:
    """No file can be made: what comes waits in memory, and is counted once."""

    def check(self, caplog: Any) -> None:
        handle = buffers.handle("hits:home")
        for turn in range(1, 4):
            handle.increment()
            handle.increment()
            assert Counter.objects.value("hits:home") == 2 * turn
            buffers.flush()
            assert landed() == 2 * turn
        assert [one.message for one in caplog.records if "has no file" in one.message] != []
        assert len([one for one in caplog.records if "has no file" in one.message]) == 1

    def test_no_file_may_be_so_large(self, root: Path, caplog: Any) -> None:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, before[1]))
        try:
            self.check(caplog)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        Counter.objects.increment("hits:home")
        assert len(files(root)) == 1

    def test_the_directory_is_none(self, root: Path, caplog: Any) -> None:
        root.write_text("a file")
        self.check(caplog)

    def test_the_directory_goes_away(self, root: Path) -> None:
        for turn in range(1, 4):
            Counter.objects.increment("hits:home")
            shutil.rmtree(root)
            buffers.flush()
            assert landed() == turn
        Counter.objects.increment("hits:home")
        buffers.flush()
        Counter.objects.increment("hits:home")
        assert len(files(root)) == 1

    def test_a_file_is_full(self, root: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(writing, "_LEAST", 1 << 16)
        monkeypatch.setattr(writing, "_EACH", 0)
        keys = [f"hits:{number}-{'x' * 150}" for number in range(1000)]
        for key in keys:
            Counter.objects.increment(key)
        assert set(Counter.objects.values_of(keys).values()) == {1}
        assert sum(landed(key) for key in keys) > 0
        die()
        adopt()
        assert {landed(key) for key in keys} == {1}

    def test_a_full_file_that_cannot_be_landed_takes_nothing(
        self, root: Path, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(writing, "_LEAST", 1 << 16)
        monkeypatch.setattr(writing, "_EACH", 0)

        def away(*_: Any) -> None:
            raise CounterUnavailable(using="default", reason="away")

        monkeypatch.setattr(pages.InDatabase, "land", away)
        keys = [f"hits:{number}-{'x' * 150}" for number in range(1800)]
        results = [Counter.objects.increment(key) for key in keys]
        assert {result.value for result in results} == {None, 1}
        assert set(Counter.objects.values_of(keys).values()) == {1}

    def test_more_than_a_file_can_hold(self, root: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(pages, "LARGE", 2**64)
        Counter.objects.increment("hits:home", INT8[1] - 5)
        handle = buffers.handle("hits:home")
        handle.decrement(3)
        handle.increment(8)
        # It is counted by itself: the value is within its range again.
        assert Counter.objects.increment("hits:home", 10) == 10
        assert landed() == 10


def test_a_sum_that_no_file_holds_keeps_nobody_else_out(root: Path, monkeypatch: Any) -> None:
    """Each change was one of 64 bits, and their sum is none. All of it is committed."""
    monkeypatch.setattr(pages, "LARGE", 2**64)
    with transaction.atomic():
        Counter.objects.increment("hits:a", INT8[1])
        Counter.objects.increment("hits:a", INT8[1])
        Counter.objects.increment("hits:b", 5)
        Counter.objects.increment("hits:c", 7)
    buffers.flush()
    assert [landed(f"hits:{name}") for name in "abc"] == [0, 5, 7]
    (incident,) = CounterIncident.objects.all()
    assert incident.detail["amounts"] == {"hits:a": 2 * INT8[1]}
