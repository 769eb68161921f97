"""Changes of counters that declare a buffer: which wait in it, and which go past it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from django_counters.exceptions import CounterUnavailable, UnsupportedBounds
from django_counters.projections.event import PLAIN
from django_counters.registry import registry
from django_counters.stores.sql.block import (
    commits_at_once,
    interrupts_statement,
    is_of_a_test_case,
)
from django_counters.stores.sql.outbox import SqlLanded
from django_counters.stores.sql.tables import NAMED
from django_counters.types import UNBOUNDED, Delta, sums_of
from django_counters.values import Unknown
from django_counters.write.buffer import Held
from django_counters.write.buffers import buffers
from django_counters.write.change import Change, Ref, named
from django_counters.write.native import within_synchronous_code
from django_counters.write.page import Page, entry_of, is_mergeable

# A counter is landed once in an interval, and a read that meets that is repeated.
ATTEMPTS = 20


def buffered(asked: Change) -> Unknown | None:
    """Put a change into the buffer of its counter; None where it goes past it.

    Within a transaction, when that commits. In a test case, which is always rolled back, and with
    no room in the buffer, it is counted as without one.

    Raises:
        UnsupportedBounds: no process knows what waits in others.
        CounterUnavailable: the buffer is full, in a signal handler that interrupted a statement.
    """
    ref = asked.ref
    if ref.buffer is None or asked.token is not None or asked.immediately:
        return None
    if asked.bounds is not UNBOUNDED:
        raise UnsupportedBounds(key=ref.label, strategy="buffered")
    return keep(ref, asked.delta)


def keep(ref: Ref, delta: Delta) -> Unknown | None:
    """The same of a delta."""
    using, entry = ref.using, entry_of(delta)
    if entry is None:
        return None
    buffer = buffers.of(ref)
    if not commits_at_once(using):
        if is_of_a_test_case(using):
            return None
        sums = {(delta.key, cell): by for cell, by in sums_of(delta)}
        SqlLanded(NAMED, using).after_commit(sums, buffer.put, merge=True)
        return Unknown(ref.text, Unknown.COMMIT)
    if buffer.add(entry, delta.by):
        return Unknown(ref.text, Unknown.BUFFERED)
    if interrupts_statement(using):
        raise CounterUnavailable(
            using=using,
            reason="the buffer is full, and this signal handler has interrupted a statement",
        )
    return None


def abuffered(asked: Change) -> Unknown | None:
    """`buffered` for async code, where no transaction is open; None where that needs a thread."""
    ref = asked.ref
    wants = asked.token is not None or asked.immediately or asked.bounds is not UNBOUNDED
    if wants or ref.buffer is None or ref.measure is not None or asked.event is not PLAIN:
        return None
    if within_synchronous_code() or not is_mergeable(asked.by):
        return None
    if not buffers.of(ref).add(ref.text, asked.by):
        return None
    return Unknown(ref.text, Unknown.BUFFERED)


class Before:
    """What buffers have of counters, before these are read.

    A page that lands meanwhile may be in the read values, or not. So it is looked at again
    afterwards: if nothing was sent, and the same pages are counted as before, it is known.

    Args:
        keys: the counters.
        using: the database.
    """

    def __init__(self, keys: Collection[str], using: str) -> None:
        self._using = using
        self._keys = [key for key in keys if registry.policy(key).buffer is not None]
        self._held = self._look(self._keys)
        self._landed = self._claims()

    def after(self) -> tuple[dict[str, int], list[str]]:
        """The amounts to add to the read values; and the counters to read again."""
        landed = self._claims()
        now = self._look(self._held)
        known: dict[str, int] = {}
        again = []
        for key, held in self._held.items():
            stands = key in now and held.marks <= now[key].marks
            if stands and all(landed[page] == self._landed[page] for page, _ in held.sent):
                known[key] = held.amount + sum(by for page, by in held.sent if not landed[page])
            else:
                again.append(key)
        return known, again

    def _look(self, keys: Collection[str]) -> Mapping[str, Held]:
        found: dict[str, Held] = {}
        for key in keys:
            held = buffers.of(named(key, self._using)).held([key])
            found.update(held)
        return found

    def _claims(self) -> dict[Page, bool]:
        """Whether each page is counted that was sent: asked once for each page."""
        found: dict[Page, bool] = {}
        for key, held in self._held.items():
            lander = buffers.of(named(key, self._using)).lander
            for page, _ in held.sent:
                if page not in found:
                    found[page] = lander.has_landed(page)
        return found
