"""A Valkey (or Redis) of our own: private, on a unix socket, gone with us."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from example_project.bootstrap import children, folders
from example_project.bootstrap.binaries import Program
from example_project.bootstrap.children import Child
from example_project.bootstrap.folders import BootstrapError, RunFolder
from example_project.bootstrap.postgres import free_port

STARTS_WITHIN = 60.0


@dataclass(frozen=True)
class Address:
    """Where the server listens: a socket path, or a port of the loopback with a password."""

    path: Path | None = None
    port: int = 0
    password: str = ""

    @property
    def url(self) -> str:
        """The address as redis-py, django-redis and Celery read it."""
        if self.path:
            return f"unix://{quote(str(self.path))}?db=0"
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def answers(self) -> bool:
        """Tell whether the server there has loaded its data and takes commands."""
        family = socket.AF_UNIX if self.path else socket.AF_INET
        greeting = f"AUTH {self.password}\r\n" if self.password else ""
        with suppress(OSError), socket.socket(family) as client:
            client.settimeout(2.0)
            client.connect(str(self.path) if self.path else ("127.0.0.1", self.port))
            client.sendall(f"{greeting}PING\r\n".encode())
            return b"+PONG" in _lines(client, 2 if greeting else 1)
        return False


def _lines(client: socket.socket, count: int) -> bytes:
    told = b""
    while told.count(b"\r\n") < count:
        part = client.recv(4096)
        if not part:
            break
        told += part
    return told


class Server:
    """A server of ours, which may be killed and started again where its data are."""

    def __init__(self, program: Program, data: Path, address: Address, *, keeps: bool) -> None:
        self._program = program
        self._data = data
        self._address = address
        self._keeps = keeps
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """Where it is, also after it was started again."""
        return self._address.url

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            BootstrapError: It did not start; the text ends with its log.
        """
        self._child = _start(self._program, self._data, self._address, keeps=self._keeps)
        _wait(self._child, self._address, self._data)

    def kill(self) -> None:
        """End it by SIGKILL while it syncs nothing.

        During a sync it acknowledges commands before the kernel knows them.
        """
        # Nothing else here needs a package.
        from redis import Redis

        def syncs() -> bool:
            facts: Any = client.info("persistence")
            return bool(facts.get("aof_pending_bio_fsync"))

        if self._child and self._child.running:
            with Redis.from_url(self.url) as client:
                children.until(lambda: not syncs(), STARTS_WITHIN, pause=0.001)
            self._child.kill()

    def stop(self) -> None:
        """End it in order."""
        if self._child:
            self._child.stop()


_ours: list[Server] = []


def ours() -> Server | None:
    """The server that this process has started and not yet stopped, if there is one."""
    return _ours[-1] if _ours else None


@contextmanager
def running(
    program: Program, run: RunFolder, keep: Path | None, *, restarts: bool = False
) -> Iterator[str]:
    """Run a server and give its URL.

    Args:
        program: What to start.
        run: Where its socket is, and its data if they need not last.
        keep: Where its data last, in a folder per major version; None for temporary data.
        restarts: Let it write down what it is told also where its data are temporary, so that it
            may be killed and started again.

    Raises:
        BootstrapError: It did not start; the text ends with its log.
    """
    data = (keep or run.path) / f"{program.name.lower()}{program.major}"
    folders.end_leftover(data.with_suffix(".pid"), shows=data)
    data.mkdir(mode=0o700, exist_ok=True)
    server = Server(program, data, _address(run), keeps=restarts or keep is not None)
    _ours.append(server)
    try:
        server.start()
        yield server.url
    finally:
        _ours.remove(server)
        server.stop()


def _address(run: RunFolder) -> Address:
    if run.sockets:
        return Address(path=run.path / "valkey.sock")
    return Address(port=free_port(), password=secrets.token_hex(16))


def _configuration(data: Path, address: Address, keeps: bool) -> Iterator[str]:
    # Keeps the path of the data in the command line, by which ``end_leftover`` knows the process.
    yield "set-proc-title no"
    yield f"dir {_quoted(data)}"
    yield 'save ""'
    yield f"appendonly {'yes' if keeps else 'no'}"
    yield "appendfsync everysec"
    yield f"port {address.port}"
    if address.path:
        yield f"unixsocket {_quoted(address.path)}"
        yield "unixsocketperm 700"
    else:
        yield "bind 127.0.0.1"
        yield f"requirepass {address.password}"


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _start(program: Program, data: Path, address: Address, *, keeps: bool) -> Child:
    # A file, because arguments can be read by every user of the machine.
    settings = data / "valkey.conf"
    lines = _configuration(data, address, keeps)
    children.write(settings, "".join(f"{line}\n" for line in lines))
    return children.start(
        [program.path, settings],
        log=data.with_suffix(".log"),
        pid_file=data.with_suffix(".pid"),
        cwd=data,
    )


def _wait(child: Child, address: Address, data: Path) -> None:
    if children.until(lambda: address.answers() or not child.running, STARTS_WITHIN):
        if child.running:
            return
        problem = "Valkey stopped while starting"
    else:
        problem = f"Valkey was not ready after {STARTS_WITHIN:.0f} s"
    log = data.with_suffix(".log").read_text(errors="replace").splitlines()[-15:]
    raise BootstrapError("\n    ".join([f"{problem}; its log ends:", *log]))
