"""The kinds of effects: rows of the core and of installed apps that a change adds to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from django_counters.features import features
from django_counters.measure import OWN_KINDS, Kind, Measure


class _Kinds:
    """The kinds of the core and of the installed apps; made again when other apps are installed."""

    def __init__(self) -> None:
        self._configs: object = None
        self.ordered: Sequence[Kind] = OWN_KINDS
        self.named: Mapping[str, Kind] = {}
        self.marked: Mapping[str, Kind] = {}
        self.of_members: Kind | None = None

    def of_now(self) -> Self:
        """Return itself, up to date."""
        # Called several times for each change. Installing other apps replaces the dictionary.
        if self._configs is not apps.app_configs:
            added = (kind for feature in features() for kind in feature.kinds)
            self.ordered = sorted((*OWN_KINDS, *added), key=lambda kind: kind.order)
            _check_distinct(self.ordered)
            self.named = {kind.name: kind for kind in self.ordered}
            self.marked = {kind.mark: kind for kind in self.ordered if kind.mark}
            self.of_members = next((kind for kind in self.ordered if kind.has_members), None)
            self._configs = apps.app_configs if apps.apps_ready else None
        return self


_kinds = _Kinds()


def _check_distinct(kinds: Sequence[Kind]) -> None:
    for attribute in ("name", "order", "mark", "has_members"):
        known: dict[object, Kind] = {}
        for kind in kinds:
            value = getattr(kind, attribute)
            other = known.setdefault(value, kind)
            if other is not kind and value:
                problem = (
                    f"The kinds {other!r} ({other.table}) and {kind!r} ({kind.table}) have the "
                    f"same {attribute} {value!r}. Give the kind of your app another one."
                )
                raise ImproperlyConfigured(problem)


def kinds() -> Sequence[Kind]:
    """Return all kinds, in the order in which each change writes them.

    Raises:
        ImproperlyConfigured: two of them have the same name, order or mark, or both have members.
    """
    return _kinds.of_now().ordered


def sharded_kinds() -> tuple[Kind, ...]:
    """Return the kinds of which each row has a number and a shard."""
    return tuple(kind for kind in kinds() if kind.is_sharded)


def kind_named(name: str) -> Kind:
    """Return the kind that has a name, as in pages of buffers and files.

    Raises:
        ValueError: no installed app has it.
    """
    kind = _kinds.of_now().named.get(name)
    if kind is None:
        raise ValueError(f"no installed app has the kind {name!r}")
    return kind


def kind_marked(mark: str) -> Kind | None:
    """Return the kind that has a mark, as in Redis; None if no installed app has it."""
    return _kinds.of_now().marked.get(mark)


def kind_of_members() -> Kind | None:
    """Return the kind whose rows have members; None if no installed app has one."""
    return _kinds.of_now().of_members


def names_members(measure: Measure) -> bool:
    """Return whether a change adds the actor of ``who`` to rows of its periods."""
    kind = kind_of_members()
    return kind is not None and bool(measure.by(kind))


def stored_periods(measure: Measure) -> tuple[str, ...]:
    """Return the keys under which the row of a measure has the start of each period's history."""
    return tuple(kind.known_as(period) for kind in kinds() for period in measure.by(kind))
