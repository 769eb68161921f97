"""A PostgreSQL of our own: private, on a unix socket, gone with us."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from example_project.bootstrap import binaries, children, folders
from example_project.bootstrap.binaries import Program
from example_project.bootstrap.children import Account, Child
from example_project.bootstrap.folders import BootstrapError, RunFolder

DATABASE = "counters"
USER = "postgres"
PORT = 5432  # only a part of the socket's name
STARTS_WITHIN = 60.0
# Nobody misses the data of a temporary server after a power cut.
CARELESS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def account() -> Account | None:
    """Return who has to run the server: None for ourselves, because only root may not.

    Raises:
        BootstrapError: We are root and there is nobody else.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return Account(name, found.pw_uid, found.pw_gid)
    raise BootstrapError("PostgreSQL refuses to run as root, and there is no user 'nobody'")


@contextmanager
def running(
    program: Program,
    run: RunFolder,
    keep: Path | None,
    who: Account | None,
    *,
    durable: bool = False,
) -> Iterator[str]:
    """Run a server, with a database ``counters``, and give its URL.

    Args:
        program: What to start.
        run: Where its socket is, and its data if they need not last.
        keep: Where its data last, in a folder per major version; None for temporary data.
        who: The user it runs as.
        durable: Let commits wait for the disk also where the data are temporary.

    Raises:
        BootstrapError: It did not start; the text ends with its log.
    """
    if not binaries.usable_by(who, program):
        if who is None or program.source != "wheels":
            raise BootstrapError(f"{program.path} does not run here: set DATABASE_URL")
        program = binaries.copied(program, run.path / "bundle", who)
    data = (keep or run.path) / f"pg{program.major}"
    _end_leftovers(data)
    if not data.exists():
        _make(program, data, who)
    elif who and data.stat().st_uid != who.uid:  # root's account was another one last time
        binaries.hand_over(data, who)
    url, options = _address(program, data, run, who)
    child = _start(program, data, options + _settings(durable or keep is not None), who)
    try:
        _wait(child, data)
        yield url
    finally:
        child.stop()


def _end_leftovers(data: Path) -> None:
    lock = data / "postmaster.pid"
    for pid_file in (data.with_suffix(".pid"), lock):
        folders.end_leftover(pid_file, shows=data)
    # The number may be somebody else's by now; PostgreSQL would refuse to start.
    with suppress(OSError, ValueError, IndexError):
        if str(data) not in children.command_line(int(lock.read_text().split()[0])):
            lock.unlink()


def _make(program: Program, data: Path, who: Account | None) -> None:
    """Make ``data`` in one step: a run that dies half way leaves nothing that looks complete."""
    fresh = data.with_name(f"{data.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    if who:
        os.chown(fresh, who.uid, who.gid)
    failed = "nothing was tried"
    for locale in ("C.UTF-8", "C"):
        command = ["--no-sync", "-E", "UTF8", f"--locale={locale}", "-A", "trust", "-U", USER]
        told = children.run_as(
            who, [program.path.with_name("initdb"), "-D", fresh, *command], env=_environment()
        )
        if told.returncode == 0:
            break
        failed = told.stderr
    else:
        raise BootstrapError(f"initdb failed:\n{_tail(failed)}")
    _statement(program, fresh, who, f"CREATE DATABASE {DATABASE}")
    fresh.rename(data)


def _statement(program: Program, data: Path, who: Account | None, text: str) -> None:
    """Run one statement in single-user mode, which needs no client library and no socket."""
    told = children.run_as(
        who,
        [program.path, "--single", "-D", data, "-j", "-c", "log_min_messages=error", "postgres"],
        text=f"{text};\n\n",
        env=_environment(),
    )
    if told.returncode != 0 or "ERROR:" in told.stderr:
        raise BootstrapError(f"PostgreSQL refused a statement:\n{_tail(told.stderr)}")


def _address(
    program: Program, data: Path, run: RunFolder, who: Account | None
) -> tuple[str, list[str]]:
    """Return the URL and the settings that make the server listen there."""
    rules = "local all all trust\n"
    if run.sockets:
        url = f"postgres://{USER}@/{DATABASE}?host={quote(str(run.path))}&port={PORT}"
        options = [
            "listen_addresses=",
            f"unix_socket_directories={run.path}",
            "unix_socket_permissions=0700",
            f"port={PORT}",
        ]
    else:
        password, port = secrets.token_hex(16), free_port()
        _statement(program, data, who, f"ALTER ROLE {USER} PASSWORD '{password}'")
        url = f"postgres://{USER}:{password}@127.0.0.1:{port}/{DATABASE}"
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", f"port={port}"]
        rules += "host all all 127.0.0.1/32 scram-sha-256\n"
    children.write(data / "pg_hba.conf", rules)
    return url, options


def free_port() -> int:
    """Return a port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _settings(durable: bool) -> list[str]:
    return ["max_connections=200", *([] if durable else CARELESS)]


def _start(program: Program, data: Path, options: list[str], who: Account | None) -> Child:
    settings = [word for option in options for word in ("-c", option)]
    return children.start(
        [program.path, "-D", data, *settings],
        log=data.with_suffix(".log"),
        pid_file=data.with_suffix(".pid"),
        account=who,
        env=_environment(),
        cwd=Path("/"),
    )


def _wait(child: Child, data: Path) -> None:
    if children.until(lambda: _ready(child, data) or not child.running, STARTS_WITHIN):
        if child.running:
            return
        problem = "PostgreSQL stopped while starting"
    else:
        problem = f"PostgreSQL was not ready after {STARTS_WITHIN:.0f} s"
    raise BootstrapError(f"{problem}; its log ends:\n{_tail(data.with_suffix('.log').read_text())}")


def _ready(child: Child, data: Path) -> bool:
    """Read what the server itself says: line 1 is its pid, line 8 its state."""
    with suppress(OSError, ValueError):
        lines = (data / "postmaster.pid").read_text().splitlines()
        return len(lines) > 7 and lines[7].strip() == "ready" and int(lines[0]) == child.pid
    return False


def _environment() -> Mapping[str, str]:
    """Return an environment without PGDATA and its like, and without anybody's secrets."""
    passed = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in passed if name in os.environ} | {"LC_ALL": "C"}


def _tail(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-15:])
