"""Many processes sell what is spread over rows: never more than there is, and all of it."""

from __future__ import annotations

import pytest

from django_counters.errors import InsufficientCount
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.concurrency import selling
from tests.concurrency.crowd import processes
from tests.testapp.models import Concert

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
STOCK = 2_000


@pytest.mark.parametrize("disturbances", [0, 25], ids=["undisturbed", "disturbed"])
@pytest.mark.parametrize("is_field", [False, True], ids=["shards", "slots"])
def test_each_unit_is_sold_once(is_field: bool, disturbances: int) -> None:
    """Also with deliveries, adjustments and rollups meanwhile."""
    with override_counters(**selling.DECLARED):
        pk = Concert.objects.create(seats=STOCK).pk if is_field else None
        if pk is None:
            Counter.objects.increment("stock:a", STOCK)
        told = processes(16, selling.take_part, pk, 14, disturbances)
        sold, added = (sum(one[part] for one in told) for part in (0, 1))
        assert min(one[2] for one in told) == 0
        left = selling.value(pk)
        assert 0 <= left == STOCK + added - sold
        # What is left was delivered after the last buyer had gone.
        assert left == 0 or disturbances
        for _ in range(left):
            selling.take(pk, 1)
        with pytest.raises(InsufficientCount):
            selling.take(pk, 1)
