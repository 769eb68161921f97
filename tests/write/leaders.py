"""Processes whose buffers have files in one directory, as a test sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.write.buffer import Buffer
from django_counters.write.buffers import buffers
from django_counters.write.change import named
from django_counters.write.files import files_of
from django_counters.write.landing import lander_of
from django_counters.write.leadership import leadership_of


def another(key: str = "hits:home") -> Buffer:
    """The buffer of another process: its locks and files are its own, and no thread lands it."""
    policy = registry.policy(key)
    assert policy.buffer
    files = files_of(policy.recipe, policy.buffer, "default")
    lander = lander_of(policy.recipe, "default")
    leadership = leadership_of(files, lander, policy.buffer)
    return Buffer(
        policy.buffer,
        lander,
        lambda: True,
        measured=policy.measure is not None,
        files=files,
        leadership=leadership,
    )


def own(key: str = "hits:home") -> Buffer:
    """The buffer of this process."""
    return buffers.of(named(key, "default"))


def turn(buffer: Buffer) -> None:
    """Let a process take its next step, as its thread does when that is due."""
    with buffer.landing:
        buffer._attempt()


def handed_over() -> tuple[Buffer, Buffer]:
    """One that leads and has 100, and one that has let it have its 7."""
    leader, other = another(), another()
    leader.add("hits:home", 100)
    other.add("hits:home", 7)
    for one in (leader, other):
        turn(one)
    return leader, other


def sums(told: list[Any]) -> Callable[..., None]:
    def listen(batch: Any, **_: object) -> None:
        told.append({str(delta.key): delta.by for delta in batch.deltas})

    batch_applied.connect(listen, weak=False)
    return listen
