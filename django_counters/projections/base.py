"""What each projection declares beside itself: its options in ``COUNTERS`` and of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django_counters.options import Option


@dataclass(frozen=True, eq=False)
class Projection:
    """All that the settings, the fields, the checks and the reference know of a projection.

    Attributes:
        name: under which ``policy.projected`` has what is declared.
        options: in small letters, as a field has them; a namespace has them in capitals.
        problems: says what is wrong with them; takes them as arguments.
        make: makes one value of them; takes the namespace or the field, and them as arguments.
        in_namespaces, in_fields: the ids of the checks that say it.
    """

    name: str
    options: tuple[Option, ...]
    problems: Callable[..., Iterator[str]]
    make: Callable[..., Any]
    in_namespaces: str
    in_fields: str

    def chosen(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Its own options among those that are given, and the defaults of others."""
        return {one.name: options.get(one.name, one.default) for one in self.options}
