"""Directories of buffers: who has one, what else may be in it, and what is cleared away."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from django_counters import clock
from django_counters.contrib import buffers
from django_counters.contrib.buffers import files as writing
from django_counters.contrib.buffers.adopting import adopt, left
from django_counters.contrib.buffers.files import File, Foreign, Head, Home, Origin, entered, read
from django_counters.contrib.buffers.process import buffers as present
from django_counters.models import Counter
from tests.buffers.buffering import landed
from tests.buffers.filing import _inner, _root, die, files  # noqa: F401 - fixtures

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("inner", ["exact"], indirect=True),
]
NAME = "0" * 31 + "1"
FILE = f"{1:016d}"


def before_it_locks(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen once, between the moment a directory is opened and its lock."""
    turns = iter([happens])

    def locks(number: int, how: int) -> None:
        next(turns, lambda: None)()
        fcntl_flock(number, how)

    fcntl_flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", locks)


@pytest.mark.rare
class TestOneOwner:
    """A directory is locked by one process, as long as it has files there."""

    def test_threads_that_begin_at_once_have_one(self, root: Path) -> None:
        for turn in range(1, 51):
            together = threading.Barrier(4)

            def work(together: threading.Barrier = together) -> None:
                together.wait()
                Counter.objects.increment("hits:home")

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            (file,) = files(root)
            assert read(file).entries == {"hits:home": 4}
            assert adopt() == (0, {}, {})
            assert file.exists()
            die()
            assert adopt().files == 1
            assert landed() == 4 * turn

    @pytest.mark.parametrize("moment", range(1, 7))
    def test_two_that_begin_a_history_at_once_have_one_lock(
        self, root: Path, moment: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One comes while the other asks for the time, in any of the moments in which it does."""
        Counter.objects.increment("hits:home")
        (buffer,) = [one for _, one in present.those_of() if one.entries]
        buffers.flush()
        buffer._landed_at -= timedelta(days=2)
        utc, turns = clock.utc, iter(range(1, 100))

        def asked() -> datetime:
            if next(turns) == moment:
                Counter.objects.increment("hits:other")
            return utc()

        monkeypatch.setattr(clock, "utc", asked)
        Counter.objects.increment("hits:home")
        monkeypatch.undo()
        assert adopt() == (0, {}, {})
        assert len({file.parent for file in files(root)}) == 1
        Counter.objects.increment("hits:late")
        keys = "hits:home", "hits:other", "hits:late"
        expected = dict(zip(keys, (2, int(next(turns) > moment), 1), strict=True))
        assert Counter.objects.values_of(keys) == expected
        buffers.flush()
        assert {key: landed(key) for key in keys} == expected

    def test_whoever_is_late_takes_no_lock_from_a_later_history(self, root: Path) -> None:
        Counter.objects.increment("hits:home")
        (made,) = [one.files for _, one in present.those_of() if one.files and one.entries]
        (first,) = files(root)
        buffers.flush()
        assert made.made("f" * 32, 1)
        assert made.made(first.parent.name, 2) is None
        with entered(root / ("f" * 32)) as is_ours:
            assert not is_ours

    def test_it_is_made_anew_while_somebody_takes_it(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Home.made(str(root), NAME).release()
        kept: list[Home] = []

        def remade() -> None:
            (root / NAME).rmdir()
            kept.append(Home.made(str(root), NAME))

        before_it_locks(monkeypatch, remade)
        with entered(root / NAME) as is_ours:
            assert not is_ours
        kept[0].release()
        with entered(root / NAME) as is_ours:
            assert is_ours

    def test_somebody_tidies_up_while_it_is_made(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before_it_locks(monkeypatch, adopt)
        Counter.objects.increment("hits:home")
        (file,) = files(root)
        assert read(file).entries == {"hits:home": 1}

    def test_others_tidy_up_again_and_again_while_it_is_made(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each of many processes may come in the moment before the lock."""
        mkdir, turns = Path.mkdir, iter(range(5))

        def made(path: Path, *args: Any, **options: Any) -> None:
            mkdir(path, *args, **options)
            if path.name.startswith(".") and next(turns, None) is not None:
                path.rmdir()

        monkeypatch.setattr(Path, "mkdir", made)
        Counter.objects.increment("hits:home")
        assert next(turns, None) is None
        (file,) = files(root)
        assert read(file).entries == {"hits:home": 1}

    def test_others_who_tidy_up_are_slow(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever has locked the directory may stand still, as on a machine that is busy."""
        mkdir, turns, held = Path.mkdir, iter(range(3)), []

        def made(path: Path, *args: Any, **options: Any) -> None:
            mkdir(path, *args, **options)
            if path.name.startswith(".") and next(turns, None) is not None:
                held.append(os.open(path, os.O_RDONLY))
                fcntl.flock(held[-1], fcntl.LOCK_EX)

        monkeypatch.setattr(Path, "mkdir", made)
        Counter.objects.increment("hits:home")
        for number in held:
            os.close(number)
        assert len(held) == 3
        (file,) = files(root)
        assert read(file).entries == {"hits:home": 1}


class TestStrangers:
    """What is no file of a buffer holds up nothing, and is left alone."""

    def test_each_is_told_once_and_the_rest_is_landed(self, root: Path) -> None:
        Counter.objects.increment("hits:home", 7)
        die()
        elsewhere = root.parent / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / f".{FILE}").write_text("mine")
        home = root / NAME
        home.mkdir()
        os.mkfifo(home / FILE)
        (home / f"{2:016d}").mkdir()
        (home / f"{3:016d}").symlink_to(elsewhere / f".{FILE}")
        (home / f".{FILE}").mkdir()
        (root / ("0" * 31 + "2")).symlink_to(elsewhere)
        (root / ("0" * 31 + "3")).write_text("mine")
        strange = {str(path) for path in (home / FILE, home / f"{2:016d}", home / f"{3:016d}")}
        strange |= {str(root / ("0" * 31 + end)) for end in "23"}
        assert {str(one.path) for one in left("default") if one.problem} == strange
        assert len(list(left("default"))) == len(strange) + 1
        report = adopt()
        assert (report.files, set(report.strange), report.failed) == (1, strange, {})
        assert landed() == 7
        assert (elsewhere / f".{FILE}").read_text() == "mine"
        assert (home / f".{FILE}").is_dir()

    def test_the_directory_itself_is_none(self, root: Path) -> None:
        root.write_text("mine")
        assert [one.path for one in left("default")] == [root]
        assert list(adopt().strange) == [str(root)]

    def test_nobody_tells_of_what_another_user_has(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """His processes may live: only he can see that."""
        root.mkdir()
        (root / NAME).write_text("his")
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        assert list(left("default")) == []
        assert adopt() == (0, {}, {})

    def test_what_was_never_begun_is_cleared_away(self, root: Path) -> None:
        """A process that is killed while it makes a directory leaves a hidden one."""
        (root / f".{NAME}").mkdir(parents=True)
        (root / ".keep").mkdir()
        assert adopt() == (0, {}, {})
        assert list(root.iterdir()) == [root / ".keep"]

    def test_a_beginning_of_other_types(self, root: Path) -> None:
        Counter.objects.increment("hits:home", 7)
        (file,) = files(root)
        head = read(file).head
        die()
        for origin in ([5, "", "exact", {}], ["default", "", "exact", 5]):
            file.unlink()
            File(file, head._replace(origin=Origin(*origin)), 10).close()  # type: ignore[arg-type]
            with pytest.raises(Foreign, match="strange"):
                read(file)


class TestOneFile:
    """What a file holds of the disk, and what it has lost."""

    def made(self, root: Path) -> File:
        (root / NAME).mkdir(parents=True)
        origin = Origin("default", "", "exact", {})
        return File(root / NAME / FILE, Head(NAME, 1, 0, origin), 10_000)

    def filled(self, file: File, most: int) -> dict[str, int]:
        """Name so many, in order; each has an amount of its own."""
        named: dict[str, int] = {}
        for number in range(1, most + 1):
            cell = file.write(key := f"hits:{number}-{'x' * 100}")
            assert cell is not None
            file.cells[cell] = named[key] = number
        return named

    def test_one_that_is_gone_changes_no_other(self, root: Path) -> None:
        """The system gives the number of a closed file to the next one."""
        file = self.made(root)
        while file._at < file._room - 20:
            self.filled(file, 1)
        file.forget()
        others = [os.open(root / f"other{turn}", os.O_RDWR | os.O_CREAT) for turn in range(20)]
        try:
            assert [file.write(f"hits:{'x' * 150}") for _ in range(5)] == [None] * 5
            assert {os.fstat(number).st_size for number in others} == {0}
        finally:
            for number in others:
                os.close(number)

    def test_a_page_that_the_disk_has_lost(self, root: Path) -> None:
        file = self.made(root)
        named = self.filled(file, 1000)
        file.close()
        data = bytearray(file.path.read_bytes())
        lost = range(40_960, 45_056)
        data[lost.start : lost.stop] = bytes(len(lost))
        file.path.write_bytes(data)
        found = read(file.path).entries
        assert found.items() <= named.items()
        # About 140 bytes each: what was in the page is lost, and what lay across its ends.
        assert 0 < len(named) - len(found) < 40
        assert list(named)[-1] in found

    def test_a_system_that_takes_no_room_without_writing(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writing, "_CAN_GROW", False)
        file = self.made(root)
        assert file._room == file._most // 8
        named = self.filled(file, 2000)
        file.close()
        assert read(file.path).entries == named
