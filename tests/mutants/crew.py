"""Tries mutants, four at the same time or one alone, and prints the result of each."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.mutants import databases
from tests.mutants.mutant import Mutant
from tests.mutants.trial import BROKEN, NOTICED, PATIENCE, SURVIVED, forked, tried

AT_ONCE = 4  # on two cores: many of them wait for a time to pass
WORDS = {SURVIVED: "SURVIVED", NOTICED: "noticed ", BROKEN: "BROKEN  "}


@dataclass
class Trial:
    """A mutant, and the process that tries it."""

    mutant: Mutant
    folder: Path
    attempt: int
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    began: float = field(default_factory=time.monotonic)
    process: int = 0

    def start(self) -> None:
        """Fork the process."""
        self.folder.mkdir()
        self.process = forked(self.run, self._log, partial(tried, self.mutant, self.folder))

    def end(self) -> None:
        """Whatever it has started and made goes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        databases.drop(self.run)

    def tell(self, code: int) -> None:
        """Print what became of it; all that it has said where it is not what was to be."""
        said = self._log.read_text(errors="replace").splitlines() or ["it said nothing"]
        took = time.monotonic() - self.began
        print(f"{WORDS[code]} {took:5.1f} s  {self.mutant.name}: {said[-1]}", flush=True)
        if code == BROKEN:
            print(*(said if took >= PATIENCE else said[-8:]), sep="\n", flush=True)

    @property
    def _log(self) -> Path:
        return self.folder / "log"


class Crew:
    """Tries mutants.

    Args:
        folder: where the trials have their files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[int, Trial] = {}
        self._begun = 0

    def tried(
        self, mutants: Sequence[Mutant], attempts: int = 1, at_once: int = AT_ONCE
    ) -> Iterator[tuple[Mutant, int]]:
        """Yield the result of each, in the order in which they end.

        One that survives is tried again, up to ``attempts`` times.
        """
        waiting = deque((mutant, 1) for mutant in mutants)
        try:
            while waiting or self._running:
                while waiting and len(self._running) < at_once:
                    self._begin(*waiting.popleft())
                trial, code = self._ended()
                if code != SURVIVED or trial.attempt == attempts:
                    yield trial.mutant, code
                else:
                    waiting.appendleft((trial.mutant, trial.attempt + 1))
        finally:
            for trial in self._running.values():
                trial.end()

    def _begin(self, mutant: Mutant, attempt: int) -> None:
        self._begun += 1
        trial = Trial(mutant, self._folder / str(self._begun), attempt)
        trial.start()
        self._running[trial.process] = trial

    def _ended(self) -> tuple[Trial, int]:
        """The next trial whose process ends, and the code of that."""
        number, status = os.wait()
        while number not in self._running:
            number, status = os.wait()
        trial = self._running.pop(number)
        trial.end()
        # One that took too long has died of a signal.
        code = os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else BROKEN
        trial.tell(code)
        return trial, code
