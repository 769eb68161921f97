"""Helpers for the tests of projects that count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connections
from django.test import override_settings

from django_counters.models import Counter
from django_counters.registry import pending_in, registry
from django_counters.stores.sql import identity
from django_counters.upkeep.sources import PATIENCE, declared
from django_counters.write.buffers import buffers


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
    """Give cached counters a place of their own in Redis, for a block or as a decorator.

    Increments in a Redis or in a buffer are not rolled back with a test: without this, the next
    test would find them. At the end it is deleted, also what was not flushed. Other processes, such
    as a worker that the test started, go on where they were.

    Raises:
        CounterUnavailable, OutcomeUnknown: a Redis could not be reached to delete it.
    """
    with identity.apart():
        buffers.clear()
        registry.forget_strategies()
        try:
            yield
        finally:
            buffers.clear()
            for using in connections:
                for cache in declared(using):
                    pending_in(cache, PATIENCE, using).clear()
            # Also what was declared within the block alone.
            registry.clear_caches()
            registry.forget_strategies()


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
