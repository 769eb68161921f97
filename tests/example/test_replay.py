"""Replaying an access log into named counters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from django_counters import short_key
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.upkeep.flush import flush
from example_project import counting, replay, run
from example_project.settings import COUNTERS
from tests.conftest import forget_pending
from tests.example.running import printed, url_of_the_test

LINE = '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET {} HTTP/1.1" 200 12 "-" "agent"\n'
LONG = "/" + "x" * 300


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.log"
    path.write_text(LINE.format("/a?q") + LINE.format("/b") + "\n" + LINE.format("/a").strip())
    return path


def replayed(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    assert run.main(["replay", *map(str, argv), "--json", "--workers", "1"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture(autouse=True)
def _as_the_example_declares_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The command closes its connection; a database in memory would be gone.
    monkeypatch.setattr("django.db.connections.close_all", lambda: None)
    with override_counters(**COUNTERS):
        yield


@pytest.mark.django_db(transaction=True)
def test_counts_and_reads_back(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed(capsys, log) == {
        "lines": 4,
        "counted": 3,
        "malformed": 1,
        "totals": {"hour:2015-05-17T10": 3, "page:/a": 2, "page:/b": 1, "status:200": 3},
        "shortened": {},
    }


@pytest.mark.django_db(transaction=True)
def test_twice_adds_twice_and_fresh_starts_at_zero(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Counter.objects.increment("visits:shop", 7)
    replayed(capsys, log)
    assert replayed(capsys, log, "--verify")["totals"]["page:/a"] == 4
    assert replayed(capsys, log, "--fresh", "--verify")["totals"]["page:/a"] == 2
    assert Counter.objects.value("visits:shop") == 7


@pytest.mark.django_db(transaction=True)
def test_what_is_no_key_is_stored_shortened_and_shown_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.log"
    bad = LINE.format("/?").encode().replace(b"/?", b"/\xff\x00")
    path.write_bytes(LINE.format(LONG).encode() + bad)
    found = replayed(capsys, path, "--verify")
    full = [f"page:{LONG}", "page:/\udcff\x00"]
    assert [found["totals"][key] for key in full] == [1, 1]
    assert found["shortened"] == {key: short_key(key) for key in full}
    assert [Counter.objects.value(short_key(key)) for key in full] == [1, 1]


@pytest.mark.django_db(transaction=True)
def test_an_empty_file_counts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    found = replayed(capsys, path, "--verify")
    assert (found["lines"], found["counted"], found["totals"]) == (0, 0, {})


def test_a_missing_file_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["replay", str(tmp_path / "none.log")]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_the_table_shows_pages_statuses_and_hours(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["replay", str(log), "--workers", "1"]) == 0
    out = capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " ")
    assert "4 lines: 3 counted, 1 malformed" in out
    assert all(word in out for word in ("/a", "/b", "200", "2015-05-17T10"))


@pytest.mark.django_db(transaction=True)
def test_verify_notices_a_counter_that_was_tampered_with(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tampering(*args: Any) -> counting.Counted:
        counted = counting.count_file(*args)
        Counter.objects.increment("page:/b")
        return counted

    monkeypatch.setattr(replay, "count_file", tampering)
    assert run.main(["replay", str(log), "--workers", "1", "--verify"]) == 1
    assert "page:/b: 2 added, 1 in the recount" in capsys.readouterr().err


@pytest.mark.django_db(transaction=True)
def test_fresh_refuses_a_database_that_is_not_ours(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Counter.objects.increment("page:/theirs")
    monkeypatch.setattr(
        "django.db.migrations.recorder.MigrationRecorder.applied_migrations", lambda _: {}
    )
    assert run.main(["replay", str(log), "--fresh"]) == 2
    assert "not set up by this example" in capsys.readouterr().err
    flush()
    assert Counter.objects.value("page:/theirs") == 1


@pytest.mark.django_db(transaction=True)
def test_a_replay_counts_in_redis_and_has_landed_at_its_end(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert counting.count_file(log, 1).counted == 3
    assert not Counter.objects.exists()
    replayed(capsys, log)
    assert Counter.objects.get(key="page:/a").value == 4
    assert flush().counters == 0


@pytest.mark.django_db(transaction=True)
def test_fresh_takes_away_what_a_killed_replay_has_left_in_redis(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counting.count_file(log, 1)
    assert replayed(capsys, log, "--fresh", "--verify")["totals"]["page:/a"] == 2


@pytest.mark.django_db(transaction=True)
def test_what_redis_has_lost_makes_the_replay_fail(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed(capsys, log)

    def losing(*args: Any) -> counting.Counted:
        counted = counting.count_file(*args)
        forget_pending("default", settings.CACHES["default"]["KEY_PREFIX"])
        return counted

    monkeypatch.setattr(replay, "count_file", losing)
    assert run.main(["replay", str(log), "--workers", "1"]) == 1
    assert "error: the flush: lost: default" in capsys.readouterr().err


@pytest.mark.postgres
def test_with_and_without_tokens_in_turn(transactional_db: None, log: Path) -> None:
    url = url_of_the_test()
    ways: list[tuple[str, ...]] = [("--fresh",), ("--tokens",), (), ("--tokens",), ("--fresh",)]
    pages = [
        printed(url, "replay", log, "--workers", "2", "--verify", *way)["totals"]["page:/a"]
        for way in ways
    ]
    assert pages == [2, 4, 6, 6, 2]


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_many_processes_count_each_line_once(tmp_path: Path) -> None:
    # The other processes read the settings of the suite, where these counters are exact.
    path = tmp_path / "many.log"
    path.write_text("".join(LINE.format(f"/{number % 7}") for number in range(500)))
    counted = counting.count_file(path, 3)
    assert (counted.lines, counted.malformed) == (500, 0)
    assert Counter.objects.value("status:200") == 500
    assert Counter.objects.value("page:/0") == 72


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_fails_makes_the_replay_fail(tmp_path: Path) -> None:
    path = tmp_path / "many.log"
    path.write_text(LINE.format("/a") * 100)
    Counter._base_manager.create(key="page:/a", value=2**63 - 10)
    with pytest.raises(OverflowError):
        counting.count_file(path, 2)
