"""Expects the tests on the list to fail, and all others to pass."""

from __future__ import annotations

import unittest
from typing import Any

from django.test.runner import DiscoverRunner
from django.test.utils import iter_test_cases  # type: ignore[attr-defined]

from tests.django_suite.exclusions import FAILING, NOT_RUN, Reasons


class Runner(DiscoverRunner):
    """A test on the list that passes fails the run, as does a name that no test has."""

    def load_tests_for_label(self, label: str, discover_kwargs: Any) -> unittest.TestSuite:
        tests = {test.id(): test for test in iter_test_cases(self._loaded(label, discover_kwargs))}
        for name in _of(label, FAILING):
            # What the decorator expectedFailure sets, on this test alone.
            tests[name].__unittest_expecting_failure__ = True
        for name in _of(label, NOT_RUN):
            # Not each version of Django has it.
            tests.pop(name, None)
        return unittest.TestSuite(tests.values())

    def _loaded(self, label: str, discover_kwargs: Any) -> unittest.TestSuite:
        suite: unittest.TestSuite = super().load_tests_for_label(label, discover_kwargs)
        return suite


def _of(application: str, names: Reasons) -> list[str]:
    listed = (name for group in names.values() for name in group)
    return [name for name in listed if name.startswith(f"{application}.")]
