"""Waiting for what another thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition`` holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.001)
