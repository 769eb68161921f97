"""An app refuses changes by a guard of its own, whatever else a counter declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.test import modify_settings

from django_counters.checks import check_setting
from django_counters.errors import CounterError
from django_counters.models import Counter
from django_counters.projector import GuardsStore
from django_counters.testing import override_counters
from django_counters.types import Delta
from tests.extension.apps import Moods

pytestmark = pytest.mark.django_db
SERIES = [f"django_counters.contrib.{name}" for name in ("series", "top", "uniques")]


class TooMuchError(CounterError):
    """{key} is calm."""

    key: str


@dataclass(frozen=True)
class Calm:
    """Refuses increases by more than five: the declaration, and the guard of each change."""

    shown: Sequence[tuple[str, int]] = ()
    call: str = ""

    def guard(self, measure: Any, effects: Any, known: Any) -> Calm:
        return self

    def parameters(self, key: str, shown: Callable[..., Any]) -> tuple[Any, ...]:
        return ()

    def refusal(self, delta: Delta, numbers: Sequence[int], label: Callable[..., str]) -> Exception:
        return TooMuchError(key=label(delta.key))

    def check(self, deltas: Sequence[Delta], store: GuardsStore, *, counted: bool) -> None:
        for delta in deltas:
            if delta.by > 5:
                raise self.refusal(delta, (), store.label)

    def taken(self, deltas: Sequence[Delta], store: GuardsStore) -> Sequence[Delta]:
        return deltas

    def foreseen(self, key: Any, by: int, store: GuardsStore) -> Sequence[Any]:
        return ()


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    moods, *others = Moods.options
    calm = replace(moods, make=lambda mood, **_: {"guard": Calm()} if mood == "calm" else {})
    monkeypatch.setattr(Moods, "options", (calm, *others))
    with override_counters(hits={"MOOD": "calm"}, points={"MOOD": "calm", "VOUCHERS": True}):
        yield


@pytest.fixture(params=[[], SERIES], ids=["with series", "without"])
def _apps(request: pytest.FixtureRequest) -> Iterator[None]:
    with modify_settings(INSTALLED_APPS={"remove": request.param}):
        yield


@pytest.mark.usefixtures("_apps")
def test_it_is_asked_without_periods() -> None:
    assert Counter.objects.increment("hits:a", 5) == 5
    with pytest.raises(TooMuchError):
        Counter.objects.increment("hits:a", 6)
    assert Counter.objects.decrement("hits:a", 2) == 3


@pytest.mark.needs("conditions")
@pytest.mark.usefixtures("_apps")
def test_it_is_asked_beside_a_condition() -> None:
    assert Counter.objects.increment("points:ann", 5, who="x") == 5
    with pytest.raises(TooMuchError):
        Counter.objects.increment("points:ann", 6, who="y")
    assert Counter.objects.value("points:ann") == 5


def test_a_counter_has_one_guard(settings: Any) -> None:
    settings.COUNTERS = {"hits": {"CEILING": {"day": 5}, "MOOD": "calm"}}
    (error,) = check_setting()
    both = "ceiling and mood each declare a guard. Remove one of them."
    assert error.msg == f"COUNTERS['hits']: {both}"
