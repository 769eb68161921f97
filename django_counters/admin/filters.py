"""Filters of the list of counters: ranges of keys, which the primary key answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_counters.conf import DEFAULT
from django_counters.registry import registry

# No namespace has a colon in its name.
OTHER = ":other"


class ChoiceFilter(admin.SimpleListFilter):
    """One of some choices; an address that asks for another one is refused."""

    def condition(self, choice: str) -> Q:
        """The keys of one choice."""
        raise NotImplementedError

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:  # noqa: ARG002
        """The counters of the choice."""
        choice = self.value()
        if choice is None:
            return queryset
        if choice not in dict(self.lookup_choices):
            raise IncorrectLookupParameters
        return queryset.filter(self.condition(choice))


class NamespaceFilter(ChoiceFilter):
    """The namespaces that ``COUNTERS`` declares, and all others as one."""

    title = _("namespace")
    parameter_name = "namespace"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """The declared ones; none where all would be others."""
        names = declared()
        return [*((name, name) for name in names), (OTHER, _("(other)"))] if names else []

    def condition(self, choice: str) -> Q:
        """A range of keys, or what is in none of them."""
        return others() if choice == OTHER else within([choice])


class StrategyFilter(ChoiceFilter):
    """The strategies that ``COUNTERS`` declares: the namespaces of each."""

    title = _("strategy")
    parameter_name = "strategy"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """Those in use; none where there is but one."""
        policies = registry.policies().values()
        names = sorted({policy.recipe.strategy for policy in policies})
        return [(name, name) for name in names] if len(names) > 1 else []

    def condition(self, choice: str) -> Q:
        """The ranges of its namespaces, and all others where it is the default."""
        policies = registry.policies()
        found = [name for name in declared() if policies[name].recipe.strategy == choice]
        if policies[DEFAULT].recipe.strategy == choice:
            return within(found) | others() if found else others()
        return within(found)


def declared() -> list[str]:
    """The namespaces that have a policy of their own, in the order of their names."""
    return sorted(name for name in registry.policies() if name != DEFAULT)


def within(names: Iterable[str]) -> Q:
    """The keys of namespaces."""
    ranges = Q()
    for name in names:
        # ";" follows ":".
        ranges |= Q(key__gte=f"{name}:", key__lt=f"{name};")
    return ranges


def others() -> Q:
    """The keys of no declared namespace."""
    names = declared()
    return ~within(names) if names else Q()
