"""Fixtures for pytest, registered by installing the distribution. Imports Django only when used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest


@pytest.fixture
def override_counters() -> Iterator[Callable[..., None]]:
    """A function that adds namespaces to ``COUNTERS`` until the test ends."""
    from django_counters import testing

    with ExitStack() as stack:

        def override(**namespaces: Mapping[str, object]) -> None:
            stack.enter_context(testing.override_counters(**namespaces))

        yield override


@pytest.fixture
def isolated_counters() -> Iterator[None]:
    """Cached counters count in a place of the test alone, until it ends."""
    from django_counters import testing

    with testing.isolated_counters():
        yield


@pytest.fixture
def assert_counts(db: Any) -> Callable[..., None]:
    """`django_counters.testing.assert_counts`, with access to the database."""
    from django_counters import testing

    return testing.assert_counts


@pytest.fixture
def assert_counted(db: Any) -> Callable[..., Any]:
    """`django_counters.testing.assert_counted`, with access to the database."""
    from django_counters import testing

    return testing.assert_counted
