"""Replaying an access log into named counters."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from django_counters.cached.flush import flush
from django_counters.contrib import series
from django_counters.models import Counter, CounterIncident, CounterPosition
from django_counters.testing import override_counters
from example_project import once, replay, run
from tests.example.running import printed, url_of_the_test

LINE = '1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET {} HTTP/1.1" 200 12 "-" "agent"\n'


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
    # The command closes its connection; a database in memory would be gone.
    monkeypatch.setattr("django.db.connections.close_all", lambda: None)


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


@pytest.mark.many_writers
def test_with_and_without_tokens_in_turn(
    site: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By processes of their own, which count together, and then by this one alone."""
    monkeypatch.setattr(once, "BYTES_OF_A_BLOCK", 2048)
    log = tmp_path / "access.log"
    log.write_text("".join(LINE.format(f"/{number % 7}") for number in range(70)) + "\n")
    ways: list[tuple[str, ...]] = [("--fresh",), ("--tokens",)]
    found = [
        printed(url_of_the_test(), "replay", log, "--workers", "2", "--verify", *way)
        for way in ways
    ]
    found.append(replayed(capsys, log, "--verify"))
    with override_counters(
        **{name: {"STRATEGY": "exact", "PER": ["day"]} for name in replay.NAMESPACES}
    ):
        found.append(replayed(capsys, log, "--tokens", "--verify"))
    assert [one["totals"]["page:/0"] for one in found] == [10, 20, 30, 30]
    assert [one["counted"] for one in found] == [70, 70, 70, 0]
    day = datetime(2015, 5, 17, tzinfo=UTC)
    assert series.of("page:/0").between(day, day + timedelta(days=1)).total() == 30
    assert {(one["lines"], one["malformed"]) for one in found} == {(71, 1)}


@pytest.mark.many_writers
def test_through_a_stream(site: None, tmp_path: Path) -> None:
    """Twice: the second time consumers go on where the first ones have ended.

    What a replay has left that was killed before it has counted is counted before.
    """
    log = tmp_path / "access.log"
    log.write_text("".join(LINE.format(f"/{number % 7}") for number in range(700)) + "\n")
    url = url_of_the_test()
    # Processes that publish together once; then this one alone, which is quicker to start.
    for times, workers in ((1, 2), (2, 1)):
        found = printed(url, "replay", log, "--workers", workers, "--verify", "--stream")
        assert (found["counted"], found["malformed"]) == (700, 1)
        assert found["totals"]["page:/0"] == 100 * times
        assert found["totals"].get("page:/left", 0) == times - 1
        part = CounterPosition.objects.exclude(position="").first()
        assert part is not None
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.xadd(part.part, {"page": "page:/left"})


@pytest.mark.many_writers
def test_through_kafka(site: None, tmp_path: Path) -> None:
    """How far the topic of an earlier broker was does not matter: that was another one."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka cannot be installed here")
    log = tmp_path / "access.log"
    log.write_text("".join(LINE.format(f"/{number % 7}") for number in range(700)) + "\n")
    earlier = {"position": "90", "timeline": "0" * 31 + "1", "moved_at": datetime.now(UTC)}
    CounterPosition.objects.create(source="stream replay-kafka", part="1", **earlier)
    url = url_of_the_test()
    found = printed(url, "replay", "--workers", "1", "--verify", "--stream", "kafka", log)
    assert (found["counted"], found["malformed"]) == (700, 1)
    assert found["totals"]["page:/0"] == 100
    assert not CounterIncident.objects.exists()


def test_the_file_may_follow_the_stream() -> None:
    for words in (["--stream", "a.log"], ["a.log", "--stream"], ["--stream", "redis", "a.log"]):
        options = run.parser().parse_args(run._with_backend(["replay", *words]))
        assert (options.way, str(options.file)) == ("redis", "a.log")
