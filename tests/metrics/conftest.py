"""What was told and counted while a test did something."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from django_counters.metrics import prometheus, samples
from django_counters.signals import batch_applied, upkeep_done

Way = tuple[str, str, str]
Counted = dict[Way, tuple[int, int]]
LABELS = ("database", "strategy", "direction")


RECEIVERS = ((batch_applied, prometheus._count_batch), (upkeep_done, prometheus._count_upkeep))


def _disconnect() -> None:
    for signal, _ in RECEIVERS:
        signal.disconnect(dispatch_uid="django_counters.metrics")


# Other tests count without it.
_disconnect()


def _begin_at_zero() -> None:
    """Beside the amounts of some tests, a float has no place for a change of one."""
    prometheus._meter.cache_clear()
    for metric in (prometheus._changes, prometheus._amount, prometheus._batch_size):
        metric.clear()


@pytest.fixture(autouse=True)
def _counting() -> Iterator[None]:
    _begin_at_zero()
    for signal, receiver in RECEIVERS:
        signal.connect(receiver, dispatch_uid="django_counters.metrics")
    yield
    _disconnect()


@pytest.fixture(autouse=True)
def _logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What is logged is seen, whichever logging a server of another test has set up."""
    for name in ("django_counters", "django.dispatch"):
        caplog.set_level(logging.INFO, logger=name)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    monkeypatch.setattr(logging.getLogger("django"), "propagate", True)


def totals() -> Counted:
    """How many changes there were, and by how much, for each way."""
    found: dict[str, dict[Way, int]] = {samples.CHANGES.name: {}, samples.AMOUNT.name: {}}
    for metric in REGISTRY.collect():
        for sample in metric.samples:
            if sample.name in found:
                way = tuple(sample.labels[label] for label in LABELS)
                found[sample.name][way] = int(sample.value)  # type: ignore[index]
    changes, amounts = found.values()
    # Both directions are there as soon as one of them has counted.
    return {way: (number, amounts[way]) for way, number in changes.items() if number}


@pytest.fixture
def counted() -> Callable[[], Counted]:
    """A function that says what was counted since it was last asked."""

    def since() -> Counted:
        found = totals()
        _begin_at_zero()
        return found

    return since


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """What `batch_applied` said."""
    heard: list[dict[str, Any]] = []

    def hear(**arguments: Any) -> None:
        heard.append(arguments)

    batch_applied.connect(hear)
    yield heard
    batch_applied.disconnect(hear)
