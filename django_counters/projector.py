"""What apps count beside a total, and what they refuse because of it: the parts of a `Measure`.

An option of an app declares a guard: its `options.Projection` makes ``{"guard":
Guarding}``. A guard looks at a change after its effects, in the same statement, and can refuse it,
as a quota does. It is asked even if the change has no effects. A counter has one at most, and
checks refuse two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol


class GuardsStore(Protocol):
    """Keeps the totals of the counters that a guard looks at."""

    #: The alias of its database.
    using: str

    def label(self, key: Hashable) -> str:
        """What people call the counter of a key."""


class ChangeGuard(Protocol):
    """Refuses a change because of its effects. Its deltas are of the class `types.Delta`.

    Changes with guards of one class are looked at together.
    """

    @property
    def call(self) -> str:
        """The call of a function of PostgreSQL: its first argument, ``{}``, is the new value.

        It returns the value, or raises an error with the code ``QC001``, whose detail is numbers
        with commas between them.
        """

    def parameters(self, key: str, shown: Callable[[datetime], Any]) -> tuple[Any, ...]:
        """Return the other arguments. ``shown`` makes a moment what the database takes."""

    def refusal(
        self, delta: Any, numbers: Sequence[int], label: Callable[[Hashable], str]
    ) -> Exception:
        """Return the error for an increase that the function refused, with its numbers."""

    def check(self, deltas: Sequence[Any], store: GuardsStore, *, counted: bool) -> None:
        """Refuse increases, all with guards of this class. The caller locks their totals.

        Args:
            deltas: the increases.
            store: reads what periods have counted.
            counted: whether they are made already.
        """

    def taken(self, deltas: Sequence[Any], store: GuardsStore) -> Sequence[Any]:
        """Return decreases with the effects that they really have. Their totals are locked."""

    def foreseen(self, key: Hashable, by: int, store: GuardsStore) -> Sequence[Any]:
        """Return what a change would do to each limit, for a preview.

        Each has a ``label``, the used part ``before`` and ``after``, and its ``ceiling``.
        """


class Guarding(Protocol):
    """The declaration of a guard, a part of a `Measure`. Equal declarations are equal."""

    @property
    def shown(self) -> Sequence[tuple[str, int]]:
        """What people call each limit, and its number: for the admin."""

    def guard(self, measure: Any, effects: Sequence[Any], using: str) -> ChangeGuard | None:
        """Return the guard of a change with these effects; None if it needs none.

        Args:
            measure: the declaration of its counter.
            effects: those of the change.
            using: the database.
        """


class LandingCells:
    """Completes pending cells when they land. Each is a `types.Cell`."""

    def stored(self, cell: Any) -> Any:
        """Return a cell as the database has it."""
        return cell

    def with_derived(self, sums: Any) -> Any:
        """Return `types.Sums` of cells that land, and of rows that are derived from them."""
        return sums


class CountsStore(Protocol):
    """Keeps totals, and holds them."""

    using: str

    def reading(self, key: Hashable) -> tuple[str, tuple[Any, ...]]:
        """Return the statement that reads total and pending of a counter, and its parameters."""


class Projector:
    """Makes the effects of changes. An app names its own in `Feature.projector`."""

    def completed(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Return the parts of a `Measure`, which several options have declared, as one."""
        return parts

    def effects(
        self,
        measure: Any,
        key: str,
        by: int,
        event: Any,
        *,
        using: str,
        admits: bool = True,
        token: Any = None,
    ) -> tuple[Any, ...]:
        """Return the effects of a change. Called for each change of a counter with a measure.

        Args:
            measure: the declaration of its counter.
            key: what people call the counter.
            by: the change of its total.
            event: its time, tags and actor: a `event.Event`.
            using: the database.
            admits: whether the database may be asked about tags; else `landing` completes the
                effects when they land.
            token: the `tokens.Token` of the change.
        """
        raise NotImplementedError

    def landing(self, using: str, measures: Iterable[Any] | None = None) -> LandingCells:  # noqa: ARG002
        """Return the `LandingCells` of a flush. ``measures``: the declared ones."""
        return LandingCells()

    def admitted(self, deltas: Sequence[Any], using: str) -> Sequence[Any]:  # noqa: ARG002
        """Return changes with their cells as stored, if this process has counted by the measure."""
        return deltas

    def counted(self, measure: Any, key: Hashable, store: CountsStore) -> Any:  # noqa: ARG002
        """Return the value of a named counter and its numbers beside it, of one moment.

        Both are a pair: a `types.Amounts`, and lists of `stores.sql.cells.CellPart` by kind.
        ``forget()`` takes these numbers away, and deletes the rows of all other kinds. None if
        nothing was ever counted by the measure.
        """
        return None

    def taken(self, deltas: Sequence[Any], store: GuardsStore) -> Sequence[Any]:  # noqa: ARG002
        """Return changes of locked totals, with the effects that decreases really have."""
        return deltas


class Projectors(Projector):
    """Those of several apps. Each makes its own effects and completes its own cells."""

    def __init__(self, projectors: Sequence[Projector]) -> None:
        self._projectors = projectors

    def completed(self, parts: dict[str, Any]) -> dict[str, Any]:
        for one in self._projectors:
            parts = one.completed(parts)
        return parts

    def effects(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return tuple(e for one in self._projectors for e in one.effects(*args, **kwargs))

    def landing(self, using: str, measures: Iterable[Any] | None = None) -> LandingCells:
        some = None if measures is None else list(measures)
        return _SeveralLanding([one.landing(using, some) for one in self._projectors])

    def admitted(self, deltas: Sequence[Any], using: str) -> Sequence[Any]:
        for one in self._projectors:
            deltas = one.admitted(deltas, using)
        return deltas

    def counted(self, measure: Any, key: Hashable, store: CountsStore) -> Any:
        counted = (one.counted(measure, key, store) for one in self._projectors)
        return next((found for found in counted if found), None)

    def taken(self, deltas: Sequence[Any], store: GuardsStore) -> Sequence[Any]:
        for one in self._projectors:
            deltas = one.taken(deltas, store)
        return deltas


class _SeveralLanding(LandingCells):
    def __init__(self, several: Sequence[LandingCells]) -> None:
        self._several = several

    def stored(self, cell: Any) -> Any:
        for one in self._several:
            cell = one.stored(cell)
        return cell

    def with_derived(self, sums: Any) -> Any:
        for one in self._several:
            sums = one.with_derived(sums)
        return sums
