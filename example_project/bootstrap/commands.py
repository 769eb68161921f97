"""What the ``python3 -m ...`` commands do before and after their own work."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

BEGAN = "DJC_BEGAN"


def serve(
    package: str,
    group: str,
    argv: Sequence[str],
    state: str | None = None,
    want: Sequence[str] | None = None,
    restarts: bool = False,
) -> int:
    """Call ``<package>.run.main(argv)`` with the packages of ``group`` and running services.

    ``--help`` needs no service and, where ``run`` can be imported, no package either.

    Args:
        package: What holds ``run``.
        group: A dependency group of ``pyproject.toml``.
        argv: The arguments after the name of the command.
        state: The folder in the checkout where data are kept; None for temporary data.
        want: The services; None for all.
        restarts: The command may kill its Valkey, and start it again.

    Returns:
        The exit code of ``main``; 130 after Ctrl-C; 1 when the bootstrap could not go on.
    """
    # Kept where another interpreter has to go on: whoever started the command waits since now.
    os.environ.setdefault(BEGAN, repr(time.time()))
    if {"-h", "--help"} & set(argv):
        try:
            return _main(package)(list(argv))
        except ImportError:  # run.py needs the packages
            return _guarded(lambda: _helped(package, group, argv))
    return _guarded(lambda: _served(package, group, argv, state, want, restarts))


def tests(argv: Sequence[str]) -> int:
    """Run pytest with ``argv`` on running services, and return its exit code."""

    def run() -> int:
        _prepare_tests()
        from example_project.bootstrap import children, folders
        from example_project.bootstrap.services import services

        if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
            # Nothing beside the sources, but each process would compile all of them again.
            os.environ.setdefault("PYTHONPYCACHEPREFIX", str(folders.cache("bytecode")))
        with services():
            # One more than there are cores, as many tests wait; who has ended takes from others.
            # SQLite in memory belongs to one process.
            sqlite = os.environ["DATABASE_URL"].startswith("sqlite")
            at_once = ["-n", "0" if sqlite else str((os.cpu_count() or 1) + 1)]
            command = [sys.executable, "-m", "pytest", *at_once, "--dist=worksteal", *argv]
            return children.run(command, cwd=folders.ROOT)

    return _guarded(run)


def _prepare_tests() -> None:
    """With what the tests in a browser need, where there is one and it can be had."""
    from example_project.bootstrap.binaries import find_chromium
    from example_project.bootstrap.folders import BootstrapError

    if not _on_mysql() and find_chromium():
        with suppress(BootstrapError):
            _prepare("browser")
            return
    _prepare("tests")


def _served(
    package: str,
    group: str,
    argv: Sequence[str],
    state: str | None,
    want: Sequence[str] | None,
    restarts: bool,
) -> int:
    _prepare(group)
    from example_project.bootstrap.folders import ROOT
    from example_project.bootstrap.services import ALL, services

    folder = ROOT / state if state else None
    with services(folder, ALL if want is None else want, restarts=restarts):
        return _main(package)(list(argv))


def _helped(package: str, group: str, argv: Sequence[str]) -> int:
    _prepare(group)
    return _main(package)(list(argv))


def _prepare(group: str) -> None:
    """With the driver of the database that is exported: one includes all of the others."""
    from example_project.bootstrap import environment

    environment.prepare("mysql" if _on_mysql() else group)


def _on_mysql() -> bool:
    return os.environ.get("DATABASE_URL", "").startswith("mysql")


def _main(package: str) -> Callable[[list[str]], int]:
    main: Callable[[list[str]], int] = importlib.import_module(f"{package}.run").main
    return main


def _guarded(work: Callable[[], int]) -> int:
    """Call ``work``; say in one place what cannot go on, without a traceback."""
    if os.name != "posix":
        print("this needs Linux, macOS or WSL", file=sys.stderr)
        return 1
    from example_project.bootstrap.folders import BootstrapError

    try:
        return work()
    except BootstrapError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
