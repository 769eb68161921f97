"""How far the measuring is, for those who wait: on a terminal one line that changes, else a line
for each thing that was measured."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO


class Progress:
    """Writes to standard error.

    Args:
        total: how many things will be measured.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._changes = self._stream.isatty()
        self._total = total
        self._done = 0
        self._began = self._last = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._replace("")

    def __call__(self, text: str) -> None:
        """Say what is done right now."""
        self._replace(f"{self._elapsed()} {self._done + 1} of {self._total}, {text}")

    def done(self, text: str) -> None:
        """One more was measured, or failed."""
        now = time.monotonic()
        self._done += 1
        line = f"{self._elapsed()} {self._done} of {self._total}, {now - self._last:.1f} s, {text}"
        self._last = now
        if not self._changes:
            print(line, file=self._stream, flush=True)

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:02}:{seconds:02}"

    def _replace(self, text: str) -> None:
        if self._changes:
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
