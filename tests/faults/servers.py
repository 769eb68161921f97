"""Servers of a test's own that are killed and come back with what they have kept."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
import redis

from django_counters.redis.keys import CELL, SLOTS, SlotKeys
from example_project.bootstrap import binaries, children, folders, postgres
from example_project.bootstrap.binaries import Program
from example_project.bootstrap.children import Child

STARTED_WITHIN = 30.0
APPEND_ONLY = ("appendonly yes", "appendfsync everysec")
# What an immediate stop must not lose is what was told to the kernel, not to the disk.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "wal_level": "replica"}


class Server:
    """A Redis, or Valkey, on a unix socket that nobody knows until it is opened.

    What it holds can be looked at before anybody else changes it.

    Args:
        folder: its data and its socket.
        name: of these.
        lines: of its configuration.
        port: on the loopback interface, for replicas and clusters; 0 for none.
        password: that of all servers that talk to each other.
    """

    def __init__(
        self, folder: Path, name: str, *lines: str, port: int = 0, password: str = ""
    ) -> None:
        self.port = port
        self.password = password
        self._socket = folder / f"{name}.sock"
        self._hidden = folder / f"{name}.new"
        self._data = folder / name
        self._lines = lines
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Its address once it is opened."""
        login = f":{self.password}@" if self.password else ""
        return f"unix://{login}{quote(str(self._socket))}?db=0"

    def start(self, *, empty: bool = False) -> None:
        """Start it, with what it has kept; nobody else can reach its socket yet."""
        if empty:
            shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(exist_ok=True)
        settings = self._data / "server.conf"
        children.write(settings, "".join(f"{line}\n" for line in self._configuration()))
        program = found(binaries.find_valkey(), "Redis")
        log = self._data.with_suffix(".log")
        self._child = children.start([program.path, settings], log=log, cwd=self._data)
        ready = children.until(self._answers, STARTED_WITHIN)
        assert ready, log.read_text(errors="replace")[-2000:]

    def _configuration(self) -> Iterator[str]:
        yield from ("set-proc-title no", 'save ""', f"dir {self._data}", f"port {self.port}")
        yield from (f"unixsocket {self._hidden}", "bind 127.0.0.1")
        if self.password:
            yield from (f"requirepass {self.password}", f"masterauth {self.password}")
        yield from self._lines

    def _answers(self) -> bool:
        with suppress(redis.RedisError), self.client(self._hidden) as client:
            return bool(client.ping())
        return False

    def open(self) -> None:
        """Let everybody reach it."""
        self._hidden.rename(self._socket)

    def client(self, socket: Path | None = None) -> redis.Redis:
        """A connection for the test itself."""
        if socket is None:
            socket = self._hidden if self._hidden.exists() else self._socket
        password = self.password or None
        return redis.Redis(unix_socket_path=str(socket), password=password, decode_responses=True)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its process."""
        assert self._child is not None
        os.kill(self._child.pid, number)

    def kill(self) -> None:
        """End it as a power cut would, but that the kernel keeps what it was told."""
        assert self._child is not None
        self.send(signal.SIGKILL)
        self._child.wait(STARTED_WITHIN)

    def let_sync(self) -> None:
        """Wait until it syncs nothing: meanwhile it acknowledges what the kernel does not know."""
        with self.client() as client:
            synced = children.until(
                lambda: not client.info("persistence")["aof_pending_bio_fsync"],
                STARTED_WITHIN,
                pause=0.001,
            )
        assert synced, "the disk is too slow"

    def stop(self) -> None:
        """End it, if it runs."""
        if self._child is not None:
            self._child.stop()

    def held(self) -> frozenset[str]:
        """The counters for which something waits in it."""
        with self.client() as client:
            return held(client)

    def held_at_last(self) -> frozenset[str]:
        """The same, after which it takes nothing more: who counts waits until it is killed."""
        with self.client() as client:
            client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
            return held(client)


def held(client: Any, *, then: str = "", slots: Iterable[int] = range(SLOTS)) -> frozenset[str]:
    """The counters for which something waits in slots of a Redis, where there is anything.

    ``then``: a command after that, UNLINK of these slots or another one. Nobody else does anything
    in between.
    """
    named = slots_in(client)
    if named is None:
        return frozenset()
    keys = [key for slot in slots for key in (named.keys(slot)[0], *named.keys(slot)[2:])]
    with client.pipeline(transaction=True) as pipe:
        for key in keys:
            pipe.hkeys(key)
        if then:
            pipe.execute_command(then, *(keys if then == "UNLINK" else ()))
        found = pipe.execute()[: -1 if then else None]
    special = ("\0", CELL)
    return frozenset(name for names in found for name in names if not name.startswith(special))


def slots_in(client: Any) -> SlotKeys | None:
    """The slots of the one database whose increments are in a Redis."""
    found = next(client.scan_iter("djc:{default:*", 1000), None)
    return found and SlotKeys("default", found.split(":")[2])


@contextmanager
def server(folder: Path, *lines: str, name: str = "redis") -> Iterator[Server]:
    """A server that is open."""
    running = Server(folder, name, *lines)
    try:
        running.start()
        running.open()
        yield running
    finally:
        running.stop()


class Pair:
    """Two servers, one of which follows the other; clients know one address."""

    def __init__(self, folder: Path) -> None:
        password = secrets.token_hex(16)
        quick = (
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
            "repl-ping-replica-period 1",
        )
        self.primary, self.replica = (
            Server(folder, name, *quick, port=postgres.free_port(), password=password)
            for name in ("one", "two")
        )
        self._link = folder / "either.sock"
        self.url = f"unix://:{password}@{quote(str(self._link))}?db=0"

    def start(self) -> None:
        """Start both, and lead clients to the first."""
        for one in (self.primary, self.replica):
            one.start()
            one.open()
        self.lead()
        self.follow()

    def lead(self) -> None:
        """Lead new connections to the primary; those that are open stay where they are."""
        fresh = self._link.with_suffix(".next")
        fresh.symlink_to(self.primary._socket)
        fresh.rename(self._link)

    def follow(self) -> None:
        """Let the replica follow the primary, and wait until it has its data."""
        with self.replica.client() as client:
            client.replicaof("127.0.0.1", str(self.primary.port))
            ready = children.until(
                lambda: client.info("replication").get("master_link_status") == "up",
                STARTED_WITHIN,
            )
        assert ready, "the replica does not follow"

    def promote(self, lag: float) -> frozenset[str]:
        """Let the replica take over; what it holds then. The old primary knows nothing of it."""
        with self.replica.client() as client:
            client.ping()
            if lag:
                self.replica.send(signal.SIGSTOP)
                time.sleep(lag)
            client.connection_pool.get_connection().send_command("REPLICAOF", "NO", "ONE")
            if lag:
                self.replica.send(signal.SIGCONT)
        with self.replica.client() as client:
            led = children.until(lambda: client.info("replication")["role"] == "master", 10)
            assert led, "the replica was not promoted"
        self.primary, self.replica = self.replica, self.primary
        return self.primary.held()

    def replace(self) -> None:
        """The one that was killed comes back with nothing, and follows."""
        self.replica.start(empty=True)
        self.replica.open()
        self.follow()

    def stop(self) -> None:
        """Stop both."""
        for one in (self.primary, self.replica):
            one.stop()


class Postgres:
    """A PostgreSQL whose commits wait for their log to be written, and that can be stopped.

    Args:
        stack: when it ends.
        copy: the `backup` that it begins with; None: it begins empty.
    """

    def __init__(self, stack: ExitStack, copy: Path | None = None) -> None:
        found(binaries.find_postgres(), "PostgreSQL")
        account = postgres.account()
        self._run = stack.enter_context(folders.temporary(account))
        self._keep = stack.enter_context(folders.temporary(account)).path
        self._running = ExitStack()
        stack.callback(self._running.close)
        if copy is not None:
            shutil.copytree(copy, self._keep / copy.name, symlinks=True)
        self.start()
        with psycopg.connect(self.url, autocommit=True) as connection:
            for name, value in SETTINGS.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            connection.execute("SELECT pg_reload_conf()")

    def start(self) -> None:
        """Start it, with recovery where it was not stopped in order."""
        program = found(binaries.find_postgres(), "PostgreSQL")
        running = postgres.running(program, self._run, self._keep, postgres.account())
        self.url = self._running.enter_context(running)

    def stop_immediately(self) -> None:
        """What ``pg_ctl stop -m immediate`` does: no goodbye, no checkpoint."""
        lock = self._data / "postmaster.pid"
        os.kill(int(lock.read_text().split()[0]), signal.SIGQUIT)
        self._running.close()

    @property
    def _data(self) -> Path:
        (version,) = self._keep.glob("pg*/PG_VERSION")
        return version.parent

    def backup(self, folder: Path) -> Path:
        """Copy its files while it runs, as ``pg_basebackup`` does; where they are in a folder."""
        copy = folder / self._data.name
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT pg_backup_start('tests', fast => true)")
            left_out = shutil.ignore_patterns("pg_wal", "postmaster.*")
            shutil.copytree(self._data, copy, True, left_out, _copied_if_there)
            told = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert told is not None
        (copy / "backup_label").write_text(told[0])
        # Last: the log of what was written while the files were copied.
        shutil.copytree(self._data / "pg_wal", copy / "pg_wal", True, None, _copied_if_there)
        return copy

    def restore(self, copy: Path) -> None:
        """Start it with the files of before. It was stopped."""
        data = self._data
        shutil.rmtree(data)
        shutil.copytree(copy, data, symlinks=True)
        self.start()

    def database(self, name: str, template: str, settings: Mapping[str, str]) -> str:
        """The URL of a new database, with settings of its own."""
        # From another one: nobody may be in the template.
        with psycopg.connect(self._in("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
            for setting, value in settings.items():
                words = f"ALTER DATABASE {name} SET {setting} = '{value}'"
                connection.execute(words.encode())
        return self._in(name)

    def _in(self, name: str) -> str:
        return self.url.replace(f"/{postgres.DATABASE}", f"/{name}", 1)

    def terminate(self, application: str) -> int:
        """End the connections of an application; how many those were."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = %s",
                [application],
            ).rowcount


def _copied_if_there(source: str, target: str) -> None:
    """Files come and go in a server that runs."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


def found(program: Program | None, name: str) -> Program:
    """A program that a test needs to start."""
    if program is None:
        pytest.skip(f"there is no {name} here that a test could start and kill")
    return program
