"""Replaying an access log into named counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from django_counters import short_key
from django_counters.models import Counter
from example_project import counting, replay, run

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
def _stay_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    # The command closes its connection, which is also the one of the test's transaction.
    monkeypatch.setattr("django.db.connections.close_all", lambda: None)


@pytest.mark.django_db
def test_counts_and_reads_back(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed(capsys, log) == {
        "lines": 4,
        "counted": 3,
        "malformed": 1,
        "totals": {"hour:2015-05-17T10": 3, "page:/a": 2, "page:/b": 1, "status:200": 3},
        "shortened": {},
    }


@pytest.mark.django_db
def test_twice_adds_twice_and_fresh_starts_at_zero(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Counter.objects.increment("visits:shop", 7)
    replayed(capsys, log)
    assert replayed(capsys, log, "--verify")["totals"]["page:/a"] == 4
    assert replayed(capsys, log, "--fresh", "--verify")["totals"]["page:/a"] == 2
    assert Counter.objects.value("visits:shop") == 7


@pytest.mark.django_db
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


@pytest.mark.django_db
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


@pytest.mark.django_db
def test_the_table_shows_pages_statuses_and_hours(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["replay", str(log), "--workers", "1"]) == 0
    out = capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " ")
    assert "4 lines: 3 counted, 1 malformed" in out
    assert all(word in out for word in ("/a", "/b", "200", "2015-05-17T10"))


@pytest.mark.django_db
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


@pytest.mark.django_db
def test_fresh_refuses_a_database_that_is_not_ours(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Counter.objects.increment("page:/theirs")
    monkeypatch.setattr(
        "django.db.migrations.recorder.MigrationRecorder.applied_migrations", lambda _: {}
    )
    assert run.main(["replay", str(log), "--fresh"]) == 2
    assert "not set up by this example" in capsys.readouterr().err
    assert Counter.objects.value("page:/theirs") == 1


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_many_processes_count_each_line_once(tmp_path: Path) -> None:
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
    Counter.objects.increment("page:/a", 2**63 - 10)
    with pytest.raises(OverflowError):
        counting.count_file(path, 2)
