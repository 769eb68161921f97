"""Replaying a log with tokens: each line counts once, whatever happens to the replay."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from django_counters.models import Counter
from example_project import once, run
from example_project.counting import count_file
from example_project.named import named_counters
from example_project.recount import recount
from example_project.replay import NAMESPACES
from tests.example.running import PATIENCE, printed, started, url_of_the_test

LINE = '1.2.3.4 - - [17/May/2015:1{}:05:03 +0000] "GET /{} HTTP/1.1" 200 12 "-" "agent"\n'


def lines(number: int) -> list[str]:
    return [LINE.format(place // 99 % 10, place % 7) for place in range(number)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_text("".join(lines(60)) + "no line\n" + LINE.format(9, "end").strip())
    return path


@pytest.fixture(autouse=True)
def _stay_connected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    # The command closes its connection, which is also the one of the test's transaction.
    if not request.node.get_closest_marker("postgres"):
        monkeypatch.setattr("django.db.connections.close_all", lambda: None)
    monkeypatch.setattr(once, "BYTES_OF_A_BLOCK", 980)


def replayed(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    arguments = ["replay", *map(str, argv), "--tokens", "--json", "--verify", "--workers", "1"]
    assert run.main(arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.django_db
def test_a_second_replay_changes_nothing_and_says_so(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = replayed(capsys, log)
    assert first["totals"] == recount(log).totals
    assert (first["lines"], first["counted"], first["replayed"], first["malformed"]) == (
        62,
        61,
        0,
        1,
    )
    second = replayed(capsys, log)
    assert second["totals"] == first["totals"]
    assert (second["counted"], second["replayed"], second["malformed"]) == (0, 61, 1)


@pytest.mark.django_db
def test_the_table_says_how_many_were_replayed(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(capsys, log)
    assert run.main(["replay", str(log), "--tokens", "--workers", "1"]) == 0
    shown = capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " ")
    assert "62 lines: 0 counted, 61 replayed, 1 malformed" in shown


@pytest.mark.django_db
def test_a_log_is_known_by_its_lines_and_not_by_its_name(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(capsys, log)
    assert replayed(capsys, log.rename(log.with_name("access.log.1")))["counted"] == 0


@pytest.mark.django_db
def test_two_lines_with_one_text_are_two_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "same.log"
    path.write_text(LINE.format(0, "a") * 50)
    assert replayed(capsys, path)["totals"]["page:/a"] == 50
    assert replayed(capsys, path)["totals"]["page:/a"] == 50


@pytest.mark.django_db
def test_another_log_with_the_same_requests_counts(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replayed(capsys, log)
    other = log.with_name("other.log")
    other.write_text(log.read_text().replace("1.2.3.4", "1.2.3.5"))
    again = replayed(capsys, other)
    assert (again["counted"], again["replayed"]) == (61, 0)
    assert again["totals"] == {key: 2 * number for key, number in recount(log).totals.items()}


@pytest.mark.django_db
def test_fresh_forgets_the_tokens(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed(capsys, log)
    again = replayed(capsys, log, "--fresh")
    assert (again["counted"], again["totals"]) == (61, recount(log).totals)
    assert replayed(capsys, log)["totals"] == recount(log).totals


@pytest.mark.django_db
def test_a_log_that_grows_counts_each_line_once_wherever_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    whole = "".join(lines(30)).encode()
    expected = recount_of(path, whole)
    before = named_counters(*NAMESPACES)
    line = len(lines(1)[0])
    # Anywhere, after whole lines, and all over a line that begins in one block and ends in another.
    cuts = {*range(0, len(whole), 97), *range(0, len(whole), 7 * line), *range(950, 1050, 10)}
    for cut in sorted(cuts):
        way = once.once(f"cut-{cut}")
        counted = 0
        for content in (whole[:cut], whole[: cut + 300], whole, whole):
            path.write_bytes(content)
            one = count_file(path, 1, way=way)
            counted += one.counted
        after = named_counters(*NAMESPACES)
        added = {key: after[key] - before.get(key, 0) for key in after}
        assert (cut, counted, added) == (cut, 30, expected)
        assert (one.counted, one.replayed) == (0, 30)
        before = after


def recount_of(path: Path, content: bytes) -> dict[str, int]:
    path.write_bytes(content)
    return dict(recount(path).totals)


@pytest.mark.django_db
def test_a_log_that_was_cut_is_refused_and_counts_nothing(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = replayed(capsys, log)["totals"]
    log.write_text("".join(lines(5)))
    assert run.main(["replay", str(log), "--tokens", "--workers", "1"]) == 1
    assert "the lines from byte 0 on were counted before" in capsys.readouterr().err
    assert named_counters(*NAMESPACES) == expected


@pytest.mark.django_db
def test_verify_notices_a_line_too_many_in_a_replay(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed(capsys, log)

    def tampering(*args: Any) -> Any:
        Counter.objects.increment("page:/1")
        return count_file(*args)

    monkeypatch.setattr("example_project.replay.count_file", tampering)
    argv = ["replay", str(log), "--tokens", "--verify", "--workers", "1"]
    assert run.main(argv) == 1
    assert "page: 1 added, 0 lines counted" in capsys.readouterr().err


@pytest.mark.django_db
def test_verify_notices_a_line_that_is_gone(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed(capsys, log)
    Counter.objects.decrement("page:/1")
    argv = ["replay", str(log), "--tokens", "--verify", "--workers", "1"]
    assert run.main(argv) == 1
    assert "page:/1: 0 added, 9 in the recount" in capsys.readouterr().err


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_many_replays_at_once_count_each_line_once(log: Path) -> None:
    found: list[int] = []

    def replay() -> None:
        try:
            found.append(count_file(log, 1, way=once.once("")).counted)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), sum(found)) == (4, 61)
    assert named_counters(*NAMESPACES) == recount(log).totals


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_number_of_processes_does_not_matter(log: Path) -> None:
    assert count_file(log, 3, way=once.once("")).counted == 61
    assert count_file(log, 2, way=once.once("")).replayed == 61
    assert named_counters(*NAMESPACES) == recount(log).totals


@pytest.mark.postgres
@pytest.mark.slow
def test_killed_and_started_again_it_ends_exact(transactional_db: None, tmp_path: Path) -> None:
    killed_and_started_again(
        url_of_the_test(), tmp_path / "long.log", lambda: Counter.objects.value("status:200")
    )


@pytest.mark.slow
def test_killed_and_started_again_it_ends_exact_on_sqlite(tmp_path: Path) -> None:
    database = tmp_path / "example.db"

    def counted() -> int:
        with closing(sqlite3.connect(database, timeout=30)) as connection:
            key = "SELECT value FROM django_counters_counter WHERE key = 'status:200'"
            return sum(value for (value,) in connection.execute(key))

    killed_and_started_again(f"sqlite:///{database}", tmp_path / "long.log", counted)


def killed_and_started_again(url: str, log: Path, counted: Callable[[], int]) -> None:
    log.touch()
    printed(url, "replay", log)  # makes the tables
    log.write_text("".join(lines(8000)))
    expected = recount(log).totals
    so_far = 0
    for _ in range(2):
        so_far = killed_in_the_middle(url, log, counted, so_far)
        assert 0 < so_far < 8000
    second = printed(url, "replay", log, "--tokens", "--workers", "3", "--verify")
    assert second["totals"] == expected
    assert (second["counted"], second["replayed"]) == (8000 - so_far, so_far)
    third = printed(url, "replay", log, "--tokens", "--workers", "1", "--verify")
    assert third["totals"] == expected
    assert (third["counted"], third["replayed"]) == (0, 8000)


def killed_in_the_middle(url: str, log: Path, counted: Callable[[], int], so_far: int) -> int:
    """Kill a replay when it has counted some more lines; how many are counted then."""
    ends = time.monotonic() + PATIENCE
    with started(url, "replay", log, "--tokens", "--workers", "2") as process:
        while counted() < so_far + 200:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < ends, "nothing is counted"
        process.kill()
        # Its children have these pipes, too: they end when the last of them has ended.
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (-9, "")
    return counted()
