"""The public API against a dictionary: whatever is called, in whatever order, they agree."""

from __future__ import annotations

import pytest
from django.db import transaction
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from django_counters.errors import CeilingExceeded, CounterOverflow, InsufficientCount
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.types import INT8
from tests import machines

pytestmark = pytest.mark.rare

BOUNDS: dict[str, dict[str, int]] = {
    "stock": {"FLOOR": 0},
    "quota": {"CEILING": 20},
    "both": {"FLOOR": -5, "CEILING": 5},
}
KEYS = ["free", "stock:a", "stock:b", "quota:a", "both:a", "edge"]
keys = st.sampled_from(KEYS)
small = st.integers(-9, 9).filter(bool)
deltas = small | st.sampled_from(INT8)
bounds = st.none() | st.integers(-9, 9)


class Model(RuleBasedStateMachine):
    """What the counters should be."""

    def __init__(self) -> None:
        super().__init__()
        Counter.objects.all().delete()
        self.values = dict.fromkeys(KEYS, 0)

    def _refuses(self, key: str, by: int, floor: int | None, ceiling: int | None) -> type | None:
        declared = BOUNDS.get(key.partition(":")[0] if ":" in key else "", {})
        floors = [b for b in (floor, declared.get("FLOOR")) if b is not None]
        ceilings = [b for b in (ceiling, declared.get("CEILING")) if b is not None]
        new = self.values[key] + by
        if by < 0 and any(new < bound for bound in floors):
            return InsufficientCount
        if by > 0 and any(new > bound for bound in ceilings):
            return CeilingExceeded
        return None if INT8[0] <= new <= INT8[1] else CounterOverflow

    @rule(key=keys, by=deltas, floor=bounds, ceiling=bounds)
    def increment(self, key: str, by: int, floor: int | None, ceiling: int | None) -> None:
        error = self._refuses(key, by, floor, ceiling)
        if error:
            with pytest.raises(error):
                Counter.objects.increment(key, by, floor=floor, ceiling=ceiling)
        else:
            self.values[key] += by
            new = Counter.objects.increment(key, by, floor=floor, ceiling=ceiling)
            assert new == self.values[key]

    @rule(key=keys, by=small, floor=bounds)
    def decrement(self, key: str, by: int, floor: int | None) -> None:
        error = self._refuses(key, -by, floor, None)
        if error:
            with pytest.raises(error):
                Counter.objects.decrement(key, by, floor=floor)
        else:
            self.values[key] -= by
            assert Counter.objects.decrement(key, by, floor=floor) == self.values[key]

    @rule(many=st.dictionaries(keys, deltas))
    def increment_many(self, many: dict[str, int]) -> None:
        errors = {self._refuses(key, by, None, None) for key, by in many.items()} - {None}
        if errors:
            # The database finds a sum that does not fit before bounds are looked at.
            errors.add(CounterOverflow)
            # The caller's transaction goes on behind a savepoint of its own.
            with pytest.raises(tuple(errors)), transaction.atomic():  # type: ignore[arg-type]
                Counter.objects.increment_many(many)
        else:
            for key, by in many.items():
                self.values[key] += by
            new = Counter.objects.increment_many(many)
            assert new == {key: self.values[key] for key in many}

    @rule(prefix=st.sampled_from(["stock:", "quota:", "both:", "free"]), by=small)
    def queryset(self, prefix: str, by: int) -> None:
        rows = Counter.objects.filter(key__startswith=prefix)
        present = list(rows.values_list("key", flat=True))
        errors = {self._refuses(key, by, None, None) for key in present} - {None}
        if errors:
            with pytest.raises(tuple(errors)):  # type: ignore[arg-type]
                rows.increment(by)
        else:
            assert rows.increment(by) == len(present)
            for key in present:
                self.values[key] += by

    @rule(key=keys, by=small)
    def rolled_back(self, key: str, by: int) -> None:
        with transaction.atomic():
            if self._refuses(key, by, None, None) is None:
                Counter.objects.increment(key, by)
            transaction.set_rollback(True)

    @invariant()
    def agree(self) -> None:
        assert Counter.objects.values_of(KEYS) == self.values
        for value in Counter.objects.values_list("value", flat=True):
            assert type(value) is int


@pytest.mark.django_db(transaction=True)
def test_the_api_agrees_with_a_dictionary(request: pytest.FixtureRequest) -> None:
    with override_counters(**BOUNDS):
        machines.run(Model, request, steps=40, examples=20, slow=50)
