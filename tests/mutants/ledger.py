"""The mechanisms that the promises of the ledger rest on."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FUNCTIONS = "django_counters/stores/sql/dialects/ledger_functions.py"
STATEMENTS = "django_counters/stores/sql/dialects/ledger_postgresql.py"
HORIZON = "django_counters/stores/sql/horizon.py"
PARTITIONS = "django_counters/stores/sql/partitions.py"
LATE = "tests/concurrency/test_ledger.py"
TOKENS = "tests/concurrency/test_tokens.py"
RETENTION = "tests/concurrency/test_retention.py"
RESTORE = "tests/upkeep/test_restore.py::TestRestored"

LEDGER = (
    Mutant(
        "ledger: a rollup folds as far as the last transaction that has begun",
        STATEMENTS,
        '"(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS h), "',
        '"(SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS h), "',
        f"{LATE}::TestLateCommits::test_a_transaction_that_is_open_during_several_rollups",
    ),
    Mutant(
        "ledger: a rollup waits for another one",
        HORIZON,
        "self._held(skip_locked=True)",
        "self._held(skip_locked=False)",
        f"{LATE}::TestRollers::test_one_that_finds_another_at_work_goes_home_at_once",
    ),
    # Then the condition on the old horizon saves the sums, but one of two rollups calls for help.
    Mutant(
        "ledger: a rollup does not lock the horizon",
        HORIZON,
        "rows = rows.select_for_update(skip_locked=skip_locked)",
        "rows = rows.all()",
        f"{LATE}::TestRollers::test_one_that_finds_another_at_work_goes_home_at_once",
    ),
    Mutant(
        "ledger: a rollup takes one that overtakes it for a restore",
        HORIZON,
        "self._check(state, self._mark())\n                with",
        "self._check(state, mark)\n                with",
        f"{LATE}::TestRollers::test_one_that_another_overtakes_sees_nothing_wrong",
    ),
    Mutant(
        "ledger: the tail is read in a later snapshot than the total",
        FUNCTIONS,
        "RETURNS numeric STABLE {_PLANNED_ONCE}",
        "RETURNS numeric VOLATILE {_PLANNED_ONCE}",
        f"{LATE}::TestRollers::test_a_rollup_in_the_middle_of_a_read[value]",
    ),
    Mutant(
        "ledger: the tails of many are read in a later snapshot than the totals",
        FUNCTIONS,
        "RETURNS TABLE (k text, waits numeric) STABLE {_PLANNED_ONCE}",
        "RETURNS TABLE (k text, waits numeric) VOLATILE {_PLANNED_ONCE}",
        f"{LATE}::TestRollers::test_a_rollup_in_the_middle_of_a_read[values_of]",
    ),
    Mutant(
        "ledger: a rollup after a restore is not refused",
        HORIZON,
        "if moved or state.horizon > mark.xid or ",
        "if ",
        f"{RESTORE}::test_a_rollup_refuses_and_changes_nothing",
    ),
    Mutant(
        "ledger: an append below the horizon is not refused",
        FUNCTIONS,
        '_FENCED = "pg_current_xact_id()::text::bigint < h"',
        '_FENCED = "false"',
        f"{RESTORE}::test_nothing_is_appended_that_nobody_would_see",
    ),
    Mutant(
        "ledger: a rebase begins with the number of its own transaction",
        STATEMENTS,
        '"SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, "',
        '"SELECT pg_current_xact_id()::text::bigint, "',
        f"{RESTORE}::test_a_transaction_that_began_before_the_rebase_and_appends_after_it",
    ),
    Mutant(
        "ledger: others write during a rebase",
        HORIZON,
        "if self._sql.keep_out:",
        "if False:",
        f"{RESTORE}::test_a_rebase_waits_for_writers_and_has_what_they_wrote",
    ),
    Mutant(
        "ledger: others write while a partition is sealed",
        STATEMENTS,
        'still="LOCK TABLE {name} IN SHARE MODE"',
        'still="LOCK TABLE {name} IN ACCESS SHARE MODE"',
        f"{RETENTION}::TestSealing::test_nobody_comes_between_the_look_and_the_seal",
    ),
    Mutant(
        "ledger: a partition is sealed before it is rolled up",
        PARTITIONS,
        "if self._session.run(unfolded, (), writes=False):",
        "if not self._session.run(unfolded, (), writes=False):",
        f"{RETENTION}::TestSealing::test_what_is_not_rolled_up_keeps_its_partition_open",
    ),
    Mutant(
        "ledger: the sums of a partition go with it",
        PARTITIONS,
        "for statement in self._sql.merge:",
        "for statement in self._sql.merge[1:]:",
        f"{RETENTION}::TestSealing::test_nobody_comes_between_the_look_and_the_seal",
    ),
    Mutant(
        "ledger: several seal and drop at the same time",
        PARTITIONS,
        "                self._session.run(self._sql.one_at_a_time, ())\n",
        "",
        f"{RETENTION}::TestDropping",
    ),
    Mutant(
        "ledger: a partition that was just dropped has lost its entries",
        "django_counters/upkeep/verify.py",
        "if differs and name in SqlPartitions(using).sealed():",
        "if differs:",
        f"{RETENTION}::TestDropping::test_while_it_is_verified",
    ),
    Mutant(
        "ledger: whoever drops a partition waits for all who read",
        PARTITIONS,
        'HURRY = "200"',
        'HURRY = "1500"',
        f"{RETENTION}::TestDropping::test_readers_and_writers_hardly_notice",
    ),
    Mutant(
        "tokens: an entry does not look for its token",
        FUNCTIONS,
        "VALUES (given, at, k, d, 0)\n    ON CONFLICT DO NOTHING;",
        "VALUES (given, at, k, d, 0);",
        f"{TOKENS}::TestSameToken::test_it_counts_once[orders:a-UUIDv7]",
    ),
    Mutant(
        "tokens: an entry and a count with the same one do not wait for each other",
        FUNCTIONS,
        "PERFORM pg_advisory_xact_lock(hashtextextended(given::text, 0));",
        "NULL;",
        f"{TOKENS}::TestSameToken::test_while_its_counter_comes_into_the_ledger",
    ),
    Mutant(
        "tokens: an entry has the time of its call",
        "django_counters/stores/sql/deltas.py",
        "return Entry(key, by, token, moment_of(token), Token(str(token)).digest)",
        "return Entry(key, by, token, clock.utc(), Token(str(token)).digest)",
        f"{TOKENS}::TestMidnight::test_a_token_of_yesterday_that_is_retried_today_by_many",
    ),
    Mutant(
        "tokens: another entry with the same one is called a replay",
        FUNCTIONS,
        "WHEN old.key = k AND old.delta = d THEN",
        "WHEN true THEN",
        f"{TOKENS}::TestSameToken::test_of_different_changes_exactly_one_is_counted[orders:a-UUIDv7]",
    ),
    Mutant(
        "tokens: another change with the same one is called a replay",
        "django_counters/stores/sql/tokens.py",
        "if bytes(used_for) != fingerprint or not result:",
        "if not result:",
        f"{TOKENS}::TestSameToken::test_of_different_changes_exactly_one_is_counted[plain-text]",
    ),
    Mutant(
        "tokens: one is used before its change is made",
        "django_counters/kinds/once.py",
        "        earlier = tokens.claim(token, call.fingerprint, _of_entry)\n",
        "        earlier = tokens.claim(token, call.fingerprint, _of_entry)\n    if True:\n",
        f"{TOKENS}::TestTransactions::test_what_is_refused_can_be_retried[text]",
    ),
)
