"""Each mechanism that a promise rests on, and the test that guards it."""

from __future__ import annotations

from tests.mutants.adjusting import ADJUSTING
from tests.mutants.idempotency import IDEMPOTENCY
from tests.mutants.landing import LANDING
from tests.mutants.ledger import LEDGER
from tests.mutants.limiting import LIMITING
from tests.mutants.mutant import Mutant as Mutant
from tests.mutants.rest import REST
from tests.mutants.telling import TELLING

MUTANTS = (
    Mutant(
        "SELECT, then UPDATE",
        "django_counters/stores/sql/totals.py",
        "        key, by, bounds, _ = delta\n",
        "        key, by, bounds, _ = delta\n"
        "        seen = self.read([key]).get(key)\n"
        "        if seen is not None and bounds.admits(seen.total, by):\n"
        "            from django_counters.models import Counter\n"
        "            Counter.objects.filter(key=key).update(value=seen.total + by)\n"
        "            return seen.total + by\n",
        "tests/concurrency/test_flash_sale.py::test_a_named_counter_with_a_floor",
    ),
    Mutant(
        "SELECT, then UPDATE, without a floor",
        "django_counters/stores/sql/totals.py",
        "        key, by, bounds, _ = delta\n",
        "        key, by, bounds, _ = delta\n"
        "        seen = self.read([key]).get(key)\n"
        "        if seen is not None:\n"
        "            from django_counters.models import Counter\n"
        "            Counter.objects.filter(key=key).update(value=seen.total + by)\n"
        "            return seen.total + by\n",
        "tests/concurrency/test_processes.py::test_one_key",
    ),
    Mutant(
        "keys in the order of the caller",
        "django_counters/stores/sql/dialects/functions.py",
        ' ORDER BY u.k COLLATE "C"\n    ON CONFLICT',
        "\n    ON CONFLICT",
        "tests/concurrency/test_processes.py::test_shared_keys_in_random_order",
    ),
    Mutant(
        "rows of a queryset locked as they come",
        "django_counters/managers/rows.py",
        '.order_by("key")',
        '.order_by("?")',
        "tests/concurrency/test_processes.py::test_new_keys_carts_and_querysets",
    ),
    Mutant(
        "no condition on the floor",
        "django_counters/stores/sql/dialects/base.py",
        'falling=update(table, now, ">=",',
        'falling=update(table, now, ">= -9223372036854775808 + 0 *",',
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
        "django_counters/stores/sql/session.py",
        "with transaction.atomic(using=self.using):",
        "if transaction:",
        "tests/strategies/test_exact.py::TestCart",
    ),
    Mutant(
        "a refusal is final even when room was made",
        "django_counters/strategies/exact.py",
        "        self._check(delta)\n        with",
        "        self._check(delta)\n"
        "        raise Contention(key=self._totals.label(delta.key), attempts=0)\n"
        "        with",
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
        "kept.driver.connection is not connection.connection",
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
    Mutant(
        "a collector ignores the rollback of a savepoint",
        "django_counters/kinds/collector.py",
        "        self._layers[at + 1 :] = [{}]\n",
        "        self._layers[at + 1 :] = [_merged(self._layers[at + 1 :])]\n",
        "tests/kinds/test_collector.py::TestUndoing::test_at_depth_three",
    ),
    Mutant(
        "a collector keeps what a block within it collected before it failed",
        "django_counters/kinds/collector.py",
        "    with begin():\n        if isinstance(collector_of(using), Collector):\n",
        "    within = isinstance(collector_of(using), Collector)\n"
        "    with suppress() if within else begin():\n"
        "        if within:\n",
        "tests/kinds/test_collector.py::TestUndoing::"
        "test_a_block_within_that_fails_takes_only_its_own",
    ),
    Mutant(
        "a collector applies its keys one by one, as they came",
        "django_counters/kinds/number.py",
        "        _apply(tuple(Delta(key, by) for key, by in sums.items()), alias)\n",
        "        for key, by in sums.items():\n            _apply((Delta(key, by),), alias)\n",
        "tests/concurrency/test_collector.py::TestCrowds::test_shared_keys_in_random_order",
    ),
    Mutant(
        "a collector applies twice what a bounded change had to know",
        "django_counters/kinds/collector.py",
        "            self.add(key, -by)\n",
        "            self.add(key, 0)\n",
        "tests/kinds/test_collector.py::TestBounds::"
        "test_a_bounded_change_is_made_at_once_after_what_is_owed",
    ),
    Mutant(
        "a collector takes the increments of other connections",
        "django_counters/kinds/collector.py",
        "return collector if collector.connection is connection else None",
        "return collector",
        "tests/concurrency/test_collector.py::TestCrowds::"
        "test_a_thread_that_inherits_the_context_counts_at_once_too",
    ),
    Mutant(
        "combining answers before the commit",
        "django_counters/strategies/combining.py",
        "        try:\n            present = self._apply_sums(sums)\n",
        "        ahead = {key: self._inner.values([key]).get(key, 0) for key in sums}\n"
        "        for call in calls:\n"
        "            ahead[call.delta.key] += call.delta.by\n"
        "            call.value = ahead[call.delta.key]\n"
        "            call.turn.set()\n"
        "        try:\n            present = self._apply_sums(sums)\n",
        "tests/strategies/test_combining.py::TestQueue::test_nobody_is_answered_before_the_commit",
    ),
    Mutant(
        "combining gives everybody the same value",
        "django_counters/strategies/combining.py",
        "            value = call.value = value + call.delta.by\n",
        "            call.value = end\n",
        "tests/concurrency/test_combining.py::test_one_key",
    ),
    Mutant(
        "combining loses the error of a call",
        "django_counters/strategies/combining.py",
        "                call.error = error\n",
        "                call.value = 0 if error else 1\n",
        "tests/strategies/test_combining.py::TestErrors::test_an_overflow_reaches_its_call_alone",
    ),
    Mutant(
        "combining gives the error of one call to all",
        "django_counters/strategies/combining.py",
        "        except Exception:\n            self._serve_each(calls)\n",
        "        except Exception as error:\n"
        "            for call in calls:\n                call.error = error\n",
        "tests/concurrency/test_combining.py::test_an_overflow_reaches_its_calls_alone",
    ),
    Mutant(
        "combining repeats a statement whose outcome is not known",
        "django_counters/strategies/combining.py",
        "        except OutcomeUnknown:\n",
        "        except ZeroDivisionError:\n",
        "tests/strategies/test_combining.py::TestErrors::test_a_connection_lost_before_the_answer",
    ),
    Mutant(
        "combining forgets the others when a leader is interrupted before it leads",
        "django_counters/strategies/combining.py",
        "        if queued and call.called:\n",
        "        if queued and not call.called:\n",
        "tests/strategies/test_combining.py::TestInterruptions::test_of_one_that_waits",
    ),
    Mutant(
        "a rollup reads, then deletes",
        "django_counters/stores/sql/folding.py",
        "            for key, value, count in self._session.run(\n"
        "                self._sql.take, (*self._owner.scope(), among, remainder)\n"
        "            ):\n",
        "            from contextlib import suppress\n"
        "            from django.db import transaction\n"
        "            params = (*self._owner.scope(), among, remainder)\n"
        "            with suppress(KeyError), transaction.atomic(self._session.using):\n"
        "                seen = list(self._session.run(self._sql.take, params))\n"
        "                raise KeyError\n"
        "            self._session.run(self._sql.take, params)\n"
        "            for key, value, count in seen:\n",
        "tests/concurrency/test_spread.py::test_somebody_counts_before_each_statement_of_a_rollup",
    ),
    Mutant(
        "a rollup without its transaction",
        "django_counters/stores/sql/folding.py",
        "        with self._session.all_or_nothing():\n            if begins",
        "        if self._session.all_or_nothing:\n            if begins",
        "tests/upkeep/test_crash.py",
    ),
    Mutant(
        "a rollup waits for rows that somebody holds",
        "django_counters/stores/sql/dialects/postgresql.py",
        'f"AND ABS({pending.number}) %% 2 = %s FOR UPDATE SKIP LOCKED)) "',
        'f"AND ABS({pending.number}) %% 2 = %s FOR UPDATE)) "',
        "tests/upkeep/test_rollup.py::TestNobodyWaits::test_a_row_that_is_held_stays_for_the_next_time",
    ),
    Mutant(
        "a rollup waits for totals that somebody holds",
        "django_counters/stores/sql/dialects/postgresql.py",
        '"FOR NO KEY UPDATE SKIP LOCKED"',
        '"FOR NO KEY UPDATE"',
        "tests/upkeep/test_rollup.py::TestNobodyWaits::test_a_total_that_is_held_keeps_its_shards",
    ),
    Mutant(
        "a rollup takes both halves of a counter at once",
        "django_counters/stores/sql/dialects/postgresql.py",
        "%% 2 = %s FOR UPDATE",
        "%% 2 >= %s - 1 FOR UPDATE",
        "tests/upkeep/test_rollup.py::TestNobodyWaits::test_writers_do_not_wait_for_it[0-64]",
    ),
    Mutant(
        "shards are picked without the lock",
        "django_counters/stores/sql/dialects/functions.py",
        " FOR UPDATE SKIP LOCKED;",
        ";",
        "tests/concurrency/test_spread.py::TestNobodyWaits::test_a_writer_whose_shard_is_held_makes_another",
    ),
    Mutant(
        "a writer waits for the shard that somebody holds",
        "django_counters/stores/sql/dialects/functions.py",
        " FOR UPDATE SKIP LOCKED;",
        " FOR UPDATE;",
        "tests/concurrency/test_spread.py::TestNobodyWaits::test_a_writer_whose_shard_is_held_makes_another",
    ),
    Mutant(
        "no limit for the number of shards",
        "django_counters/stores/sql/dialects/functions.py",
        "generate_series(0, cap - 1) n",
        "generate_series(0, cap + 60) n",
        "tests/concurrency/test_spread.py::test_more_transactions_than_shards_wait_and_succeed",
    ),
    Mutant(
        "total and shards are read one after the other",
        "django_counters/stores/sql/totals.py",
        "        return _amounts(self._session.run("
        "self._reads.many, self._asked(keys), writes=False))",
        "        self._session.run(self._reads.many, self._asked(keys), writes=False)\n"
        "        return _amounts(self._session.run("
        "self._reads.many, self._asked(keys), writes=False))",
        "tests/strategies/test_sharded.py::test_each_call_is_one_statement",
    ),
    Mutant(
        "a reading misses what waits in shards",
        "django_counters/stores/sql/dialects/base.py",
        'f"SELECT {key}, NULL, {pending.value} FROM',
        'f"SELECT {key}, NULL, 0 * {pending.value} FROM',
        "tests/strategies/test_switching.py::TestNamed::test_reading",
    ),
    Mutant(
        "an exact floor asks the total alone",
        "django_counters/strategies/exact.py",
        "value = amounts.value if amounts else 0",
        "value = (amounts.total or 0) if amounts else 0",
        "tests/strategies/test_switching.py::TestNamed::test_a_floor_is_asked_of_the_whole_value",
    ),
    Mutant(
        "an exact change does not see that something waits in shards",
        "django_counters/stores/sql/dialects/functions.py",
        "NOT EXISTS (SELECT FROM {_SHARDS} s WHERE s.key = k)",
        "true",
        "tests/strategies/test_switching.py::TestNamed::test_negative_pending_is_not_there_to_sell",
    ),
    Mutant(
        "with_counts() without what waits in slots",
        "django_counters/querysets.py",
        "return models.F(field.name) + Coalesce(",
        "return models.F(field.name) + 0 * Coalesce(",
        "tests/strategies/test_with_counts.py::TestOneQuery",
    ),
    Mutant(
        "an update after with_counts() writes what waits into the column",
        "django_counters/querysets.py",
        "clone.query.annotations.pop(field.name, None)",
        "clone.query.annotations.get(field.name)",
        "tests/strategies/test_with_counts.py::TestOneQuery::"
        "test_an_update_by_an_expression_is_about_the_column",
    ),
    Mutant(
        "a deleted record leaves its slots to the next one with its key",
        "django_counters/fields/columns.py",
        "post_delete.connect(field.forget_slots, sender=sender)",
        "pass",
        "tests/strategies/test_slotted.py::TestFields::test_a_deleted_record_forgets_its_slots[integer]",
    ),
    Mutant(
        "a shard key leads elsewhere in another process",
        "django_counters/strategies/spread.py",
        "zlib.crc32(str(route).encode())",
        "hash((zlib, str(route)))",
        "tests/strategies/test_sharded.py::TestShardKey",
    ),
    Mutant(
        "what is begun is not sent",
        "django_counters/stores/sql/wire.py",
        'return b"BEGIN;" if',
        'return b"" if',
        "tests/stores/test_wire.py::"
        "test_the_first_statement_of_a_transaction_begins_it_in_the_same_message",
    ),
    Mutant(
        "a transaction forgets its isolation level",
        "django_counters/stores/sql/wire.py",
        "if asked == (None, None, None) else None",
        "if asked else None",
        "tests/stores/test_wire.py::test_what_the_connection_wants_of_transactions_is_begun",
    ),
    Mutant(
        "who is interrupted leaves the statement to itself",
        "django_counters/stores/sql/wire.py",
        "            self._abandon()\n            raise",
        "            raise",
        "tests/stores/test_wire.py::TestInterrupted",
    ),
    *LEDGER,
    *LANDING,
    *ADJUSTING,
    *LIMITING,
    *TELLING,
    *IDEMPOTENCY,
    *REST,
)
