"""Each mechanism that a promise of landings rests on, and the test that guards it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BATCHES = "django_counters/stores/sql/batches.py"
_TOTALS = "django_counters/stores/sql/totals.py"
_POSTGRESQL = "django_counters/stores/sql/dialects/landing_postgresql.py"
_DIALECT = "django_counters/stores/sql/dialects/postgresql.py"
_RECORDS = "django_counters/stores/sql/records.py"
_CLAIM = "tests/stores/test_batches.py::TestClaim"
_ALONE = "tests/stores/test_batches.py::TestTransaction"
_NAMED = "tests/stores/test_landing.py::TestNamed"
_OF_RECORDS = "tests/stores/test_landing.py::TestRecords"
_READ = "tests/stores/test_read_landed.py"

LANDING = (
    Mutant(
        "a landing applies what others have applied",
        _BATCHES,
        "        return _generations(self._session.run(self._sql.claim, self._sql.columns(rows)))",
        "        self._session.run(self._sql.claim, self._sql.columns(rows))\n"
        "        return {batch.generation for batch in batches}",
        f"{_CLAIM}::test_a_second_landing_waits_for_the_first",
    ),
    Mutant(
        "generations that are looked up, then inserted",
        _BATCHES,
        "        rows = [(*batch[:4], str(batch.total)) for batch in batches]\n",
        "        known = self.known([batch.generation for batch in batches])\n"
        "        batches = [batch for batch in batches if batch.generation not in known]\n"
        "        rows = [(*batch[:4], str(batch.total)) for batch in batches]\n"
        "        self._session.run(self._sql.claim, self._sql.columns(rows)) if rows else None\n"
        "        return {batch.generation for batch in batches}\n",
        f"{_CLAIM}::test_a_second_landing_waits_for_the_first",
    ),
    Mutant(
        "generations claimed as they come",
        _POSTGRESQL,
        ' ORDER BY u.g"',
        '"',
        f"{_CLAIM}::test_generations_are_claimed_in_their_order",
    ),
    Mutant(
        "a claim in a transaction of its own",
        _BATCHES,
        "        return _generations(self._session.run(self._sql.claim, self._sql.columns(rows)))",
        "        from concurrent.futures import ThreadPoolExecutor\n"
        "        def claim():\n"
        "            try:\n"
        "                return self._session.run(self._sql.claim, self._sql.columns(rows))\n"
        "            finally:\n"
        "                connections.close_all()\n"
        "        with ThreadPoolExecutor(1) as pool:\n"
        "            return _generations(pool.submit(claim).result())",
        f"{_CLAIM}::test_a_claim_is_taken_back_with_what_was_landed",
    ),
    Mutant(
        "a landing within another transaction",
        _BATCHES,
        ", durable=True",
        "",
        f"{_ALONE}::test_it_is_never_part_of_another_one",
    ),
    Mutant(
        "a landing that nobody commits",
        _BATCHES,
        "if not (connection.autocommit or connection.in_atomic_block)",
        "if False",
        f"{_ALONE}::test_without_autocommit_nobody_would_commit_it",
    ),
    Mutant(
        "parts of a landing alone",
        _BATCHES,
        "        if self._session.commits_at_once():\n            raise",
        "        if False:\n            raise",
        f"{_ALONE}::test_its_parts_are_nothing_without_it",
    ),
    Mutant(
        "a landing that is not on the disk",
        _POSTGRESQL,
        "set_config('synchronous_commit', 'on', true), ",
        "",
        f"{_ALONE}::test_what_holds_within_it_and_what_after_it",
    ),
    Mutant(
        "settings that outlive the landing",
        _POSTGRESQL,
        "set_config('lock_timeout', %s, true)",
        "set_config('lock_timeout', %s, false)",
        f"{_ALONE}::test_what_holds_within_it_and_what_after_it",
    ),
    Mutant(
        "a landing in one snapshot",
        _BATCHES,
        "        self._session.execute(self._sql.begin)\n",
        "",
        f"{_ALONE}::test_what_holds_within_it_and_what_after_it",
    ),
    Mutant(
        "a lock that is not waited for, without a name",
        _DIALECT,
        '("55P03", "57014",',
        '("57014",',
        f"{_ALONE}::test_who_waits_too_long_is_told_to_try_again",
    ),
    Mutant(
        "a statement that takes too long, without a name",
        _DIALECT,
        '("55P03", "57014",',
        '("55P03",',
        f"{_ALONE}::test_who_waits_too_long_is_told_to_try_again",
    ),
    Mutant(
        "a lost COMMIT is said to be undone",
        _BATCHES,
        "if unknown and",
        "if False and",
        f"{_ALONE}::test_a_connection_lost_within_commit",
    ),
    Mutant(
        "what was surely undone is said to be unknown",
        _BATCHES,
        "unknown=begins and done",
        "unknown=begins",
        f"{_ALONE}::test_a_connection_lost_before_commit",
    ),
    Mutant(
        "one counter that is full stops all",
        _BATCHES,
        "            over = self._over(fitting)\n",
        "            over = set(fitting)\n",
        f"{_NAMED}::test_what_does_not_fit_does_not_stop_its_neighbours",
    ),
    Mutant(
        "a landing without a savepoint",
        _BATCHES,
        "            with self._session.all_or_nothing():\n                self._named",
        "            if True:\n                self._named",
        f"{_NAMED}::test_what_does_not_fit_does_not_stop_its_neighbours",
    ),
    Mutant(
        "what waits elsewhere is not asked",
        _BATCHES,
        "(amounts.total or 0, amounts.value))",
        "(amounts.total or 0,))",
        f"{_NAMED}::test_what_does_not_fit_does_not_stop_its_neighbours",
    ),
    Mutant(
        "any text is a key",
        _BATCHES,
        "        return Refusal.STRANGE\n    low, high",
        "        pass\n    low, high",
        f"{_NAMED}::test_what_is_no_key_does_not_stop_its_neighbours",
    ),
    Mutant(
        "totals landed as they come",
        "django_counters/stores/sql/dialects/functions.py",
        ' ORDER BY u.k COLLATE "C"\n    ON CONFLICT',
        "\n    ON CONFLICT",
        f"{_NAMED}::test_totals_are_held_in_the_order_of_their_keys",
    ),
    Mutant(
        "totals beside one that is full held as they come",
        _POSTGRESQL,
        '\'ORDER BY u.k COLLATE "C" ON',
        "'ON",
        f"{_NAMED}::test_totals_are_held_in_the_order_of_their_keys",
    ),
    Mutant(
        "the range of a column is not asked",
        _BATCHES,
        "    fits = low <= total + by <= high and",
        "    fits =",
        f"{_OF_RECORDS}::test_what_cannot_land_does_not_stop_its_neighbours",
    ),
    Mutant(
        "a record that is gone stops all",
        _BATCHES,
        "        return Refusal.MISSING\n",
        "        return None\n",
        f"{_OF_RECORDS}::test_what_cannot_land_does_not_stop_its_neighbours",
    ),
    Mutant(
        "any text that can be read is a primary key",
        _RECORDS,
        "if str(native) == text and",
        "if",
        f"{_OF_RECORDS}::test_what_cannot_land_does_not_stop_its_neighbours",
    ),
    Mutant(
        "a primary key of any size",
        _RECORDS,
        " <= native <= ",
        " != native != ",
        f"{_OF_RECORDS}::test_what_cannot_land_does_not_stop_its_neighbours",
    ),
    Mutant(
        "a primary key that is cut",
        _RECORDS,
        " and (longest is None or len(native) <= longest)",
        "",
        f"{_OF_RECORDS}::test_a_text_is_never_cut_to_that_of_another_record",
    ),
    Mutant(
        "a primary key with a character that no text can have",
        _RECORDS,
        '"\\0" not in native and ',
        "",
        f"{_OF_RECORDS}::test_keys_of_every_kind",
    ),
    Mutant(
        "rows of records held as they come",
        _POSTGRESQL,
        "ORDER BY {table.key} FOR",
        "FOR",
        f"{_OF_RECORDS}::test_rows_are_held_in_the_order_of_their_keys",
    ),
    Mutant(
        "rows of records that nobody holds",
        _POSTGRESQL,
        " FOR NO KEY UPDATE",
        "",
        f"{_OF_RECORDS}::test_what_others_change_meanwhile_is_part_of_what_has_to_fit",
    ),
    Mutant(
        "totals first, generations later",
        _TOTALS,
        "        rows = self._session.run(sql, params, writes=False)\n        landed",
        "        rows = [(*row, None) for row in self._session.run("
        "self._reads.many, self._asked(keys), writes=False)]\n"
        "        rows += [(None, None, None, g) for (g,) in self._session.run("
        "dialect.landing.known, params[-1:], writes=False)]\n        landed",
        f"{_READ}::test_what_is_landed_meanwhile_is_neither_missing_nor_double",
    ),
    Mutant(
        "generations first, totals later",
        _TOTALS,
        "        rows = self._session.run(sql, params, writes=False)\n        landed",
        "        rows = [(None, None, None, g) for (g,) in self._session.run("
        "dialect.landing.known, params[-1:], writes=False)]\n"
        "        rows += [(*row, None) for row in self._session.run("
        "self._reads.many, self._asked(keys), writes=False)]\n        landed",
        f"{_READ}::test_what_is_landed_meanwhile_is_neither_missing_nor_double",
    ),
    Mutant(
        "all rows of landings are forgotten",
        _POSTGRESQL,
        "WHERE applied_at < %s ORDER",
        "WHERE applied_at <> %s ORDER",
        f"{_CLAIM}::test_old_ones_are_forgotten",
    ),
    Mutant(
        "what was seen first is kept",
        "django_counters/stores/sql/dialects/landing.py",
        "SET seen = EXCLUDED.seen, ",
        "SET ",
        f"{_CLAIM}::test_what_was_seen_in_a_source",
    ),
    Mutant(
        "a part is removed before it is landed",
        "django_counters/upkeep/flush.py",
        "    landed, told = landing.commit(part, concerns)\n",
        "    handed.remove(dict.fromkeys(part.held, ()))\n"
        "    landed, told = landing.commit(part, concerns)\n",
        "tests/upkeep/test_parts.py::test_the_next_one_is_read_while_one_is_landed",
    ),
    Mutant(
        "sums of a part that somebody else has landed",
        "django_counters/upkeep/landing.py",
        "        as_read = len(due) == len(held) and not any(tokened.values())\n",
        "        as_read = True\n",
        "tests/strategies/test_cached_flush.py",
    ),
    Mutant(
        "a connection that a child shares with its parent",
        "django_counters/stores/redis/client.py",
        "return self._pid != os.getpid() or bool(self._poll.poll(0))",
        "return bool(self._poll.poll(0))",
        "tests/stores/redis/test_fork.py::"
        "test_a_child_that_python_was_not_told_of_has_a_connection_of_its_own",
    ),
)
