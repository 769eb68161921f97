"""Processes that do not outlive the one that started them.

On Linux the kernel signals a child when its parent dies, even by SIGKILL. Elsewhere the next run
finds the pid file that the last one left (see ``folders.reap``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from example_project.bootstrap import signals

LAUNCHER = str(Path(__file__).with_name("launcher.py"))


@dataclass(frozen=True)
class Account:
    """The user that a server runs as when we are root."""

    name: str
    uid: int
    gid: int


class Child:
    """A process that we started, and the only kind that ``stop`` will signal."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        pid_file: Path | None = None,
        polite: signal.Signals = signal.SIGINT,
    ) -> None:
        self._process = process
        self._pid_file = pid_file
        self._polite = polite
        self._owner = os.getpid()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self, seconds: float | None = None) -> int:
        """Return its exit code, 128 + n after signal n; raise TimeoutExpired after ``seconds``."""
        code = self._process.wait(seconds)
        return code if code >= 0 else 128 - code

    def interrupt(self, grace: float) -> None:
        """Wait ``grace`` seconds, then send SIGINT: for a child that had Ctrl-C itself."""
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it by SIGKILL, as an accident would; what it kept on disk stays."""
        if os.getpid() == self._owner and self.running:
            self._process.kill()
            self._process.wait()

    def ask(self) -> None:
        """Send SIGINT and do not wait: for several that are to end at the same time."""
        if os.getpid() == self._owner and self.running:
            self._process.send_signal(self._polite)

    def stop(self, grace: float = 10.0) -> None:
        """End it: SIGINT, after ``grace`` seconds SIGQUIT, then SIGKILL.

        A foreground child that ignores SIGINT gets SIGTERM instead.
        Does nothing in a fork of the process that started it.
        """
        if os.getpid() != self._owner:
            return
        with signals.undisturbed():
            for number in (self._polite, signal.SIGQUIT, signal.SIGKILL):
                if not self.running:
                    break
                self._process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(grace)
            if self._pid_file:
                self._pid_file.unlink(missing_ok=True)


def start(
    command: Sequence[str | Path],
    *,
    log: Path | None = None,
    pid_file: Path | None = None,
    account: Account | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    foreground: bool = False,
    death: signal.Signals | None = None,
) -> Child:
    """Start ``command`` so that it ends when this process ends.

    In a thread other than the main one that tie is left out, because the kernel would take the end
    of the thread for the end of the parent.

    Args:
        command: The program and its arguments.
        log: The file for its output; without it, our own output.
        pid_file: Where its number is, while it runs, for the next run to find.
        account: The user to become first.
        env: Its environment; without it, ours.
        cwd: Its working folder; without it, ours.
        foreground: Keep terminal, input and process group, so that Ctrl-C reaches it as well.
        death: The signal that it gets when this process ends; without it, one that asks.
    """
    in_main = threading.current_thread() is threading.main_thread()
    # A job that a script put in the background ignores SIGINT, and so do its foreground children.
    death = death or (signal.SIGTERM if foreground else signal.SIGINT)
    deaf = foreground and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    words = [
        *(sys.executable, "-I", "-S", LAUNCHER),
        str(os.getpid()),
        str(int(death) if in_main else 0),
        f"{account.uid}:{account.gid}" if account else "",
        *map(str, command),
    ]
    with _output(log) as out:
        process = subprocess.Popen(
            words,
            stdin=None if foreground else subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=env,
            cwd=cwd,
            start_new_session=not foreground,
        )
    if pid_file:
        write(pid_file, f"{process.pid}\n")
    return Child(process, pid_file, signal.SIGTERM if deaf else signal.SIGINT)


@contextmanager
def _output(log: Path | None) -> Iterator[int | None]:
    if log is None:
        yield None
        return
    number = _opened(log)
    try:
        yield number
    finally:
        os.close(number)


def write(path: Path, text: str) -> None:
    """Write a private file, also as root in a folder that another account could write."""
    with open(_opened(path), "w", encoding="utf-8") as file:
        file.write(text)


def _opened(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


def run(command: Sequence[str | Path], *, cwd: Path | None = None) -> int:
    """Run ``command`` in the foreground and return its exit code; end it if we have to end."""
    child = start(command, cwd=cwd, foreground=True)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.interrupt(grace=5.0)
        with suppress(subprocess.TimeoutExpired):
            return child.wait(30.0)
        return 130
    finally:
        child.stop()


def run_as(
    account: Account | None,
    command: Sequence[str | Path],
    *,
    text: str = "",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a short ``command`` as ``account`` with ``text`` as its input; return what came out.

    Raises:
        OSError: The account cannot run it, or we may not become that account.
    """
    return subprocess.run(
        [str(word) for word in command],
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        input=text,
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def until(condition: Callable[[], bool], seconds: float, pause: float = 0.02) -> bool:
    """Poll ``condition`` for ``seconds``; return whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def command_line(pid: int) -> str:
    """Return the command line of any process; empty if it is gone (or a zombie)."""
    if Path("/proc/self/cmdline").exists():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return words.replace(b"\0", b" ").decode(errors="replace")
    listing = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listing.stdout.strip()


def end_leftover(pid: int, shows: Path, grace: float = 10.0) -> None:
    """End a process that an earlier run left, only while its command line shows ``shows``."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if str(shows) not in command_line(pid):
            return
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
        until(lambda: str(shows) not in command_line(pid), grace)
