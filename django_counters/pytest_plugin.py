"""Fixtures for pytest, registered by installing the distribution. Imports Django only when used."""

from __future__ import annotations

import sys
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


@pytest.fixture(autouse=True)
def isolated_counters() -> Iterator[None]:
    """Each test counts in a part of Redis of its own, which is deleted at its end.

    So cached counters, and what apps keep in a process, start at zero, in each test and each run.
    A fixture of the same name in a ``conftest.py`` replaces this one, such as for tests that share
    counts with a worker.
    """
    django = sys.modules.get("django.apps")  # not imported for a project that does not use it
    if not (django and django.apps.ready and django.apps.is_installed("django_counters")):
        yield
        return
    from django_counters import testing

    with testing.apart():
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
