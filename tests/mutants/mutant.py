"""What a mutant is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mechanism taken away: ``old`` becomes ``new`` in ``file``, and ``test`` must notice."""

    name: str
    file: str
    old: str
    new: str
    test: str
