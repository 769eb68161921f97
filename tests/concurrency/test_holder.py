"""Who is said to hold the ledger up: somebody whom a rollup has met, not whoever is at work."""

from __future__ import annotations

import pytest
from django.db import connections, transaction

from django_counters.ledger import upkeep as ledger
from django_counters.models import CounterDelta
from django_counters.upkeep import rollup
from tests.concurrency.servers import connected
from tests.settling import let_others_end, roll_up

pytestmark = [pytest.mark.rare, pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


def test_a_transaction_holds_up_what_a_rollup_left_because_of_it() -> None:
    CounterDelta.objects.append("a", 1)
    roll_up()
    CounterDelta.objects.append("a", 1)
    let_others_end()
    with connected("late"), transaction.atomic(using="late"):
        CounterDelta.objects.append("b", 1, using="late")
        with connections["late"].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            name = f"pid {cursor.fetchone()[0]},"
        held = ledger.state()
        assert held.entries == 1, held
        # Other tests use the server, too, and may be older.
        assert held.holder is None or not held.holder.name.startswith(name)
        CounterDelta.objects.append("a", 1)
        rollup()
        met = ledger.state()
        assert met.entries == 1, met
        assert met.holder is not None
    let_others_end()
