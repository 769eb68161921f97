"""The kinds of effects: rows of installed apps that a change adds to, and who makes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from django_counters.features import features
from django_counters.measure import Kind, Measure
from django_counters.projector import Projector, Projectors


class UnknownKind(ValueError):
    """A row is of a kind that no installed app has."""


class _Kinds:
    """The kinds of the installed apps, and their projector."""

    def __init__(self) -> None:
        self.configs = apps.app_configs if apps.apps_ready else None
        added = (kind for feature in features() for kind in feature.kinds)
        self.ordered = ordered = tuple(sorted(added, key=lambda kind: kind.order))
        # One kind that is pending in Redis can have no mark.
        marked = [one for one in ordered if one.mark or not (one.derived or one.has_members)]
        of_members = [one for one in ordered if one.has_members]
        _distinct("order", ordered)
        self.named = _distinct("name", ordered)
        self.marked = _distinct("mark", marked)
        self.of_members = sets = _distinct("has_members", of_members).get(True)
        # A change asks both of its measure. There are as many as namespaces and fields.
        self.has_cells = lru_cache(1_000)(lambda m: any(m.declared(k.option) for k in ordered))
        self.names_members = lru_cache(1_000)(
            lambda m: sets is not None and bool(m.declared(sets.option))
        )

    @cached_property
    def projector(self) -> Projector | None:
        """What makes the effects of changes: one for all apps."""
        paths = [feature.projector for feature in features() if feature.projector]
        several: list[Projector] = list(map(import_string, paths))
        return Projectors(several) if len(several) > 1 else next(iter(several), None)


_made: list[_Kinds] = []


def _kinds() -> _Kinds:
    """Return the present kinds. Called several times for each change."""
    # Installing other apps replaces the dictionary.
    if not _made or _made[0].configs is not apps.app_configs:
        _made[:] = [_Kinds()]
    return _made[0]


def _distinct(attribute: str, kinds: Sequence[Kind]) -> dict[Any, Kind]:
    """Return the kinds by an attribute."""
    known: dict[Any, Kind] = {}
    for kind in kinds:
        value = getattr(kind, attribute)
        other = known.setdefault(value, kind)
        if other is not kind:
            problem = (
                f"The kinds {other!r} ({other.table}) and {kind!r} ({kind.table}) have the "
                f"same {attribute} {value!r}. Give the kind of your app another one."
            )
            raise ImproperlyConfigured(problem)
    return known


def projector() -> Projector | None:
    """Return what makes the effects of changes; None if no installed app does."""
    return _kinds().projector


def kinds() -> tuple[Kind, ...]:
    """Return all kinds, in the order in which each change writes them.

    Raises:
        ImproperlyConfigured: two of them have the same name, order or mark, or both have members.
    """
    return _kinds().ordered


def kind_named(name: str) -> Kind:
    """Return the kind that has a name, as in pages of buffers and files.

    Raises:
        UnknownKind: no installed app has it.
    """
    kind = _kinds().named.get(name)
    if kind is None:
        raise UnknownKind(f"no installed app has the kind {name!r}")
    return kind


def kind_marked(mark: str) -> Kind | None:
    """Return the kind that has a mark, or none, as in Redis; None if no installed app has it."""
    return _kinds().marked.get(mark)


def kind_of_members() -> Kind | None:
    """Return the kind whose rows have members; None if no installed app has one."""
    return _kinds().of_members


def names_members(measure: Measure) -> bool:
    """Return whether a change adds a row for the actor of ``who``."""
    return _kinds().names_members(measure)


def has_cells(measure: Measure) -> bool:
    """Return whether a change adds to rows beside its total."""
    return _kinds().has_cells(measure)
