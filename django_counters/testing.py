"""Helpers for the tests of projects that count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_counters.features import features
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.session import isolated
from django_counters.upkeep import caches


class override_counters(override_settings):  # noqa: N801
    """Add namespaces to ``COUNTERS``, or replace them, for a block, a function or a test class.

        with override_counters(inventory={"FLOOR": 0}): ...

    Namespaces that are not named stay as they are.
    """

    def __init__(self, **namespaces: Mapping[str, object]) -> None:
        super().__init__()
        self.namespaces = namespaces

    def enable(self) -> None:
        present = getattr(settings, "COUNTERS", None) or {}
        self.options = {"COUNTERS": {**present, **self.namespaces}}
        super().enable()

    def decorate_class(self, cls: Any) -> Any:
        self.options = {
            "COUNTERS": {**(getattr(settings, "COUNTERS", None) or {}), **self.namespaces}
        }
        return super().decorate_class(cls)


@contextmanager
def isolated_counters() -> Iterator[None]:
    """Give cached counters a part of Redis of their own, for a block or as a decorator.

    Rolling back a test doesn't reach Redis, or what an app keeps in this process: without this, the
    next test finds its increments. At the end the part is deleted, including pending increments.
    Processes that the block forks count in the same part; others, such as a worker, stay where they
    are.

    With pytest each test has a part of its own already: see the fixture of this name.

    Raises:
        CounterUnavailable, OutcomeUnknown: Redis couldn't be reached to delete the part.
    """
    with apart():
        try:
            yield
        finally:
            # A child may have counted where this process did not.
            for using in connections:
                for cache in caches(using):
                    from django_counters.cached.sources import PATIENCE, pending_of

                    pending_of(cache, PATIENCE, using)


@contextmanager
def apart() -> Iterator[None]:
    """As `isolated_counters`; connects to Redis at the end only if the block did so."""
    with isolated(), ExitStack() as after:
        _clear()
        registry.forget_strategies()
        # The last one first, each of them even if others fail.
        after.callback(registry.forget_strategies)
        after.callback(registry.clear_apart)
        after.callback(_clear)
        yield


def _clear() -> None:
    with ExitStack() as clearing:
        for feature in features():
            clearing.callback(feature.clear)


def assert_counts(expected: Mapping[str, int], *, using: str | None = None) -> None:
    """Fail unless every named counter has exactly its expected value; lists all that differ."""
    found = Counter.objects.values_of(expected, using=using)
    wrong = [f"{key}: {found[key]}, not {n}" for key, n in expected.items() if found[key] != n]
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(expected)} counters differ: {'; '.join(wrong)}")


@contextmanager
def assert_counted(*keys: str, by: int = 1, using: str | None = None) -> Iterator[None]:
    """Fail unless the block changes each of ``keys`` by exactly ``by`` (zero: not at all)."""
    before = Counter.objects.values_of(keys, using=using)
    yield
    assert_counts({key: value + by for key, value in before.items()}, using=using)


class CounterTestMixin:
    """The assertions as methods, for Django's test cases."""

    def assertCounts(  # noqa: N802
        self, expected: Mapping[str, int], *, using: str | None = None
    ) -> None:
        """See `assert_counts`."""
        assert_counts(expected, using=using)

    def assertCounted(  # noqa: N802
        self, *keys: str, by: int = 1, using: str | None = None
    ) -> Any:
        """See `assert_counted`."""
        return assert_counted(*keys, by=by, using=using)
