"""What the flaws of each protocol have in common."""

from __future__ import annotations

from enum import Enum


class Flawed(Enum):
    """A protocol that lacks one thing: the plan in which it is found out, and as what."""

    def __init__(self, words: str, plan: str, fault: str) -> None:
        self.words = words
        self.plan = plan
        self.fault = fault
