"""Replaying a log with tokens: each line counts once, whatever happens to the replay."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from django_counters.contrib import series
from django_counters.models import Counter
from django_counters.testing import override_counters
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
def _one_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The command closes its connection, which is also the one of the test's transaction.
    if not request.node.get_closest_marker("many_writers"):
        monkeypatch.setattr("django.db.connections.close_all", lambda: None)
    monkeypatch.setattr(once, "BYTES_OF_A_BLOCK", 980)
    with override_counters(**{name: {"STRATEGY": "exact", "PER": ["day"]} for name in NAMESPACES}):
        yield


def replayed(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    arguments = ["replay", *map(str, argv), "--tokens", "--json", "--verify", "--workers", "1"]
    assert run.main(arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def by_day(key: str) -> list[int]:
    """What was counted on two days in May."""
    first = datetime(2015, 5, 17, tzinfo=UTC)
    days = series.of(key).per("day").between(first, first + timedelta(days=2))
    return [day.value for day in days if day.value]


@pytest.mark.django_db
def test_a_second_replay_changes_nothing_and_says_so(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two lines with one text are two requests.
    next_day = LINE.format(0, "same").replace("17/May", "18/May")
    log.write_text(next_day * 2 + log.read_text())
    first = replayed(capsys, log)
    assert first["totals"] == recount(log).totals
    assert (first["lines"], first["counted"], first["replayed"], first["malformed"]) == (
        64,
        63,
        0,
        1,
    )
    assert by_day("status:200") == [61, 2]
    # It is known by its lines, whatever it is called.
    second = replayed(capsys, log.rename(log.with_name("access.log.1")))
    assert second["totals"] == first["totals"]
    assert (second["counted"], second["replayed"], second["malformed"]) == (0, 63, 1)
    assert by_day("status:200") == [61, 2]


@pytest.mark.django_db
def test_a_log_that_grows_counts_each_line_once_wherever_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    whole = "".join(lines(30)).encode()
    expected = recount_of(path, whole)
    before = named_counters(*NAMESPACES)
    line = len(lines(1)[0])
    # Anywhere, after whole lines, and all over a line that begins in one block and ends in another.
    cuts = {*range(0, len(whole), 240), *range(0, len(whole), 7 * line), *range(950, 1050, 20)}
    for cut in sorted(cuts):
        way = once.once(f"cut-{cut}")
        counted = 0
        for content in (whole[:cut], whole[: cut + 300], whole, whole):
            path.write_bytes(content)
            one = count_file(path, 1, way)
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


@pytest.mark.many_writers
@pytest.mark.slow
def test_killed_and_started_again_it_ends_exact(transactional_db: None, tmp_path: Path) -> None:
    url, log = url_of_the_test(), tmp_path / "long.log"
    log.touch()
    printed(url, "replay", log)  # makes the tables
    log.write_text("".join(lines(8000)))
    expected = recount(log).totals
    so_far = 0
    for _ in range(2):
        so_far = killed_in_the_middle(url, log, so_far)
        assert 0 < so_far < 8000
    second = printed(url, "replay", log, "--tokens", "--workers", "3", "--verify")
    assert second["totals"] == expected
    assert (second["counted"], second["replayed"]) == (8000 - so_far, so_far)
    third = printed(url, "replay", log, "--tokens", "--workers", "1", "--verify")
    assert third["totals"] == expected
    assert (third["counted"], third["replayed"]) == (0, 8000)


def killed_in_the_middle(url: str, log: Path, so_far: int) -> int:
    """Kill a replay when it has counted some more lines; how many are counted then."""

    def counted() -> int:
        return Counter.objects.value("status:200")

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
