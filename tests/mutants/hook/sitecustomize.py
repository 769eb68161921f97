"""Shows a mutant to a process: what Python reads for one module is another text.

This folder is on the ``PYTHONPATH`` of every process that a trial starts, so that Python imports
this file before all else. What a mutant reads is in no cache, and comes from none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

# The name of the module, and the file that has its text.
VARIABLE = "DJC_MUTANT"


class Mutated(SourceFileLoader):
    """Reads another file than the one it names."""

    def __init__(self, module: str, original: str, text: str) -> None:
        super().__init__(module, original)
        self.text = text

    def get_data(self, path: str) -> bytes:
        return Path(self.text).read_bytes()

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("without a time it is neither read from a cache nor written to one")


class Finder:
    """Finds one module, where it is."""

    def __init__(self, module: str, text: str) -> None:
        self.module = module
        self.text = text

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the module is; None for every other one."""
        spec = PathFinder.find_spec(name, path) if name == self.module else None
        if spec and spec.origin:
            spec.loader = Mutated(name, spec.origin, self.text)
        return spec


def show(variable: str) -> None:
    """Let this process import what the variable says."""
    module, _, text = variable.partition(" ")
    sys.meta_path.insert(0, Finder(module, text))


if VARIABLE in os.environ:
    show(os.environ[VARIABLE])
