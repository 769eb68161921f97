"""Calls of functions of the package are counted, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.calls import BEFORE, counted
from django_counters.contrib.series.calendar import PERIODS
from django_counters.types import check_key, namespace_of


@pytest.mark.parametrize(
    ("work", "calls"),
    [
        (lambda: namespace_of("likes:a"), 1),
        (lambda: [namespace_of("likes:a"), namespace_of("likes:b")], 2),
        (lambda: PERIODS.index("day"), 0),
    ],
)
def test_calls_of_the_package_are_counted(work: Callable[[], object], calls: int) -> None:
    assert counted(work, lambda: None) == calls


def test_what_comes_before_is_not_counted() -> None:
    made: list[str] = []
    calls = counted(lambda: made.append("work"), lambda: made.append(check_key("before")))
    assert calls == 0
    assert made == ["before", "work"] * (BEFORE + 1)
