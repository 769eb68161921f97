"""Each mechanism that a promise rests on, and the test that guards it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mechanism taken away: ``old`` becomes ``new`` in ``file``, and ``test`` must notice."""

    name: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = (
    Mutant(
        "SELECT, then UPDATE",
        "django_counters/stores/sql/totals.py",
        "        key, by, bounds = delta\n",
        "        key, by, bounds = delta\n"
        "        seen = self.read([key]).get(key)\n"
        "        if seen is not None and bounds.admits(seen, by):\n"
        "            from django_counters.models import Counter\n"
        "            Counter.objects.filter(key=key).update(value=seen + by)\n"
        "            return seen + by\n",
        "tests/concurrency/test_flash_sale.py::test_a_named_counter_with_a_floor",
    ),
    Mutant(
        "SELECT, then UPDATE, without a floor",
        "django_counters/stores/sql/totals.py",
        "        key, by, bounds = delta\n",
        "        key, by, bounds = delta\n"
        "        seen = self.read([key]).get(key)\n"
        "        if seen is not None:\n"
        "            from django_counters.models import Counter\n"
        "            Counter.objects.filter(key=key).update(value=seen + by)\n"
        "            return seen + by\n",
        "tests/concurrency/test_processes.py::test_one_key",
    ),
    Mutant(
        "keys in the order of the caller",
        "django_counters/stores/sql/dialects/postgresql.py",
        "'ORDER BY u.k COLLATE \"C\" '",
        "' '",
        "tests/concurrency/test_processes.py::test_shared_keys_in_random_order",
    ),
    Mutant(
        "rows of a queryset locked as they come",
        "django_counters/managers.py",
        '.order_by("key")',
        '.order_by("?")',
        "tests/concurrency/test_processes.py::test_new_keys_carts_and_querysets",
    ),
    Mutant(
        "no condition on the floor",
        "django_counters/stores/sql/dialects/base.py",
        'falling_update=update(table, now, ">="),',
        'falling_update=update(table, now, ">=").replace(">= %s", "IS NOT NULL OR %s IS NULL"),',
        "tests/concurrency/test_flash_sale.py::test_a_field_with_a_floor",
    ),
    Mutant(
        "a cart is not checked after it was applied",
        "django_counters/strategies/exact.py",
        "            if refused:\n",
        "            if not refused:\n                return values\n            if False:\n",
        "tests/concurrency/test_flash_sale.py::test_a_cart",
    ),
    Mutant(
        "a cart without its savepoint",
        "django_counters/stores/sql/totals.py",
        "with transaction.atomic(using=self.using):",
        "if transaction:",
        "tests/strategies/test_exact.py::TestCart",
    ),
    Mutant(
        "a refusal is final even when room was made",
        "django_counters/strategies/exact.py",
        "_ATTEMPTS = 20",
        "_ATTEMPTS = 0",
        "tests/strategies/test_exact.py::test_nobody_is_refused_while_there_is_enough",
    ),
    Mutant(
        "plain save()",
        "django_counters/models/total.py",
        "        return models.F(self.attname)\n",
        "        return int(value)\n",
        "tests/concurrency/test_processes.py::test_saving_a_row_never_overwrites_its_counter",
    ),
    Mutant(
        "plain bulk_update()",
        "django_counters/models/total.py",
        'return f"COALESCE({column}, %s)"',
        'return "%s"',
        "tests/fields/test_saving.py::test_bulk_update",
    ),
    Mutant(
        "a lost connection is called an error like any other",
        "django_counters/stores/sql/dialects/postgresql.py",
        'return state.startswith(("08", "57P"))',
        "return False",
        "tests/stores/test_failures.py",
    ),
    Mutant(
        "a kept cursor outlives its connection",
        "django_counters/stores/sql/cursors.py",
        "kept.cursor.connection is not connection.connection",
        "False",
        "tests/stores/test_cursors.py",
    ),
    Mutant(
        "a call may widen the bounds of its namespace",
        "django_counters/types.py",
        "max(floors, default=None)",
        "min(floors, default=None)",
        "tests/strategies/test_exact.py::TestFloor",
    ),
    Mutant(
        "the bound behind a value is asked, too",
        "django_counters/types.py",
        "        if by < 0:\n            return self.floor",
        "        if True:\n            return self.floor",
        "tests/test_types.py",
    ),
)
