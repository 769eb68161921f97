"""A MariaDB of a test's own that is killed and comes back with what it has kept."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from example_project.bootstrap import children
from example_project.bootstrap.children import Child

STARTED_WITHIN = 60.0
NAME = "counted"
# What it is started with, and nothing that the machine has configured.
OPTIONS = ("--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=32M")


class MariaDB:
    """A server on a unix socket."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self._data, self._socket = folder / "data", folder / "mariadb.sock"
        self._log = folder / "mariadb.log"
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"mysql://root@{quote(str(self._socket), safe='')}/{NAME}"

    def install(self) -> None:
        """Make its data, in which root needs no password."""
        subprocess.run(
            [
                *("mariadb-install-db", "--no-defaults", "--skip-test-db", f"--user={_user()}"),
                *(f"--datadir={self._data}", "--auth-root-authentication-method=normal"),
            ],
            check=True,
            capture_output=True,
        )

    def start(self) -> None:
        """Start it with what it has kept."""
        places = f"--datadir={self._data}", f"--socket={self._socket}", f"--user={_user()}"
        self._child = children.start([_program(), *OPTIONS, *places], log=self._log)
        ready = children.until(self._answers, STARTED_WITHIN)
        assert ready, self._log.read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """End it as an accident would."""
        assert self._child is not None
        self._child.kill()

    def stop(self) -> None:
        """End it, if it runs."""
        if self._child is not None:
            self._child.stop()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute one statement on a connection of its own."""
        with (
            closing(self.driver.connect(unix_socket=str(self._socket), user="root")) as connection,
            closing(connection.cursor()) as cursor,
        ):
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def others(self) -> list[int]:
        """The numbers of the connections to its database."""
        listed = f"SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{NAME}'"
        return [int(number) for (number,) in self.run(listed)]

    def _answers(self) -> bool:
        try:
            return bool(self.run("SELECT 1"))
        except self.driver.Error:
            return False


def _user() -> str:
    """Who runs it: it refuses to be root unless that is said."""
    return getpass.getuser()


def _program() -> str:
    return shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin") or ""


@contextmanager
def mariadb(folder: Path) -> Iterator[MariaDB]:
    """A running one with an empty database; skips the test where there is no program for it."""
    driver = pytest.importorskip("MySQLdb", reason="needs mysqlclient")
    if not _program() or not shutil.which("mariadb-install-db"):
        pytest.skip("needs the programs of MariaDB: apt install mariadb-server")
    server = MariaDB(driver, folder)
    server.install()
    try:
        server.start()
        server.run(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
        yield server
    finally:
        server.stop()
