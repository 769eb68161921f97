"""Each mechanism that a promise of adjustments rests on, and the test that guards it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ADJUSTMENT = "django_counters/kinds/adjustment.py"
_CASES = "django_counters/kinds/cases.py"
_SUBJECT = "django_counters/kinds/subject.py"
_CORRECTIONS = "django_counters/stores/sql/corrections.py"
_KINDS = "tests/kinds/test_adjustment.py"
_AROUND = "tests/kinds/test_adjustment_around.py"
_CROWD = "tests/concurrency/test_adjusting.py"
_CACHED = "tests/strategies/test_cached_adjusting.py"

ADJUSTING = (
    Mutant(
        "adjust: a total that nobody holds",
        _CORRECTIONS,
        "        if not self._credit(key, 0):\n",
        "        if not self.read_one(key):\n",
        f"{_CROWD}::test_what_is_left_is_taken_once",
    ),
    Mutant(
        "adjust: a value that was read before its total was held",
        _CORRECTIONS,
        "        if not self._credit(key, 0):\n",
        "        seen = self.read_one(key)\n"
        "        if self._credit(key, 0):\n            return seen or Amounts(0, 0)\n"
        "        if True:\n",
        f"{_CROWD}::test_what_is_left_is_taken_once",
    ),
    Mutant(
        "adjust: several at once",
        "django_counters/stores/sql/audit.py",
        "        self._session.run(self._session.dialect.audit.alone, (), writes=False)\n",
        "",
        f"{_CROWD}::test_a_thousand_adjustments[2]",
    ),
    Mutant(
        "adjust: another value than the expected one",
        _ADJUSTMENT,
        "    if order.expected in (None, before):\n",
        "    if True:\n",
        f"{_KINDS}::TestEveryKind::test_a_refusal_writes_nothing[exact]",
    ),
    Mutant(
        "adjust: a change whatever others have adjusted",
        _ADJUSTMENT,
        "audit.last_of(subject.field, subject.key) != order.last",
        "False",
        "tests/admin/test_adjusting.py::TestAValueThatHasChanged"
        "::test_what_somebody_else_has_adjusted_meanwhile_does",
    ),
    Mutant(
        "adjust: a token is ignored",
        _ADJUSTMENT,
        "            if given is None\n",
        "            if True\n",
        f"{_KINDS}::TestEveryKind::test_a_token_adjusts_once[exact]",
    ),
    Mutant(
        "adjust: the floor is ignored",
        _ADJUSTMENT,
        "    if not bounds.admits(before, delta):",
        "    if False:",
        f"{_KINDS}::TestBounds::test_a_floor_and_a_ceiling_hold",
    ),
    Mutant(
        "adjust: the total alone is not asked",
        _CORRECTIONS,
        "        if not low <= total + by <= high:",
        "        if False:",
        f"{_KINDS}::TestBounds::test_the_value_would_fit_but_the_total_alone_does_not",
    ),
    Mutant(
        "adjust: downwards one person may do all",
        _ADJUSTMENT,
        "abs(delta) > limit",
        "delta > limit",
        f"{_KINDS}::TestApproval::test_above_the_limit_a_second_person_is_needed[-1]",
    ),
    Mutant(
        "adjust: a person with two names is two",
        _ADJUSTMENT,
        " or bool(self.id and self.id == other.id)",
        "",
        f"{_KINDS}::TestBadInput::test_nobody_approves_their_own",
    ),
    Mutant(
        "adjust: an entry like any other",
        "django_counters/stores/sql/dialects/ledger.py",
        "ADJUSTMENT = 1",
        "ADJUSTMENT = 0",
        f"{_KINDS}::TestRow::test_only_a_ledger_has_an_entry[ledger]",
    ),
    Mutant(
        "adjust: what is collected comes later",
        _ADJUSTMENT,
        "    _settle([subject], alias)\n    held",
        "    held",
        f"{_AROUND}::TestCollect::test_what_is_owed_is_part_of_the_value[exact]",
    ),
    Mutant(
        "adjust: receivers hear of it before the commit",
        _ADJUSTMENT,
        "    transaction.on_commit(tell, using=alias, robust=True)\n",
        "    tell()\n",
        f"{_KINDS}::TestEveryKind::test_what_is_rolled_back_never_was[exact]",
    ),
    Mutant(
        "adjust: a receiver without a name that fails",
        _ADJUSTMENT,
        "transaction.on_commit(tell,",
        "transaction.on_commit(partial(tell),",
        f"{_KINDS}::TestRow::test_a_receiver_that_fails_undoes_nothing",
    ),
    Mutant(
        "adjust: a record of another database",
        _SUBJECT,
        "using or self.home or router",
        "using or router",
        "tests/fields/test_adjusting.py::TestDatabases::test_a_record_is_adjusted_where_it_counts",
    ),
    Mutant(
        "adjust: what waits in Redis is not asked",
        _ADJUSTMENT,
        'strategy.value(subject.native) if subject.strategy == "cached" else held.value',
        "held.value",
        f"{_CACHED}::TestFlush::test_one_in_the_middle_of_a_flush[look]",
    ),
    Mutant(
        "adjust: Redis forgets nothing",
        _ADJUSTMENT,
        "            strategy.forget([subject.native])\n",
        "            pass\n",
        f"{_CACHED}::TestForgetting::test_a_cached_read_is_right_at_once",
    ),
    Mutant(
        "adjust: Redis forgets before the commit",
        _ADJUSTMENT,
        "    transaction.on_commit(forget, using=alias, robust=True)\n",
        "    forget()\n",
        f"{_CACHED}::TestForgetting::test_what_is_rolled_back_is_not_forgotten",
    ),
    Mutant(
        "adjust: who has asked before fills in what is old",
        "django_counters/stores/redis/scripts.py",
        'FORGET = Script(_read("forget"))',
        'FORGET = Script(_read("forget").replace("redis.call(\'HDEL\', KEYS[2], \'\\\\0v\')", ""))',
        f"{_CACHED}::TestForgetting::test_a_reader_that_has_seen_the_old_total_does_not_fill_it_in",
    ),
    Mutant(
        "explain: what lands meanwhile is in both",
        "django_counters/kinds/history.py",
        "        if strategy.landed_among(list(waits)) == landed:\n",
        "        if True:\n",
        f"{_CACHED}::TestFlush::test_an_explanation_that_a_landing_overtakes",
    ),
    Mutant(
        "case: looked at before it is alone",
        _CASES,
        "            with adjusting(page[0][0], alias) as audit:\n",
        "            counters = [(subject.field, subject.key) for subject, _ in page]\n"
        "            known = SqlAudit(alias).of_case(report.case, counters)\n"
        "            with adjusting(page[0][0], alias) as audit:\n"
        "                audit.of_case = lambda *_: known\n",
        f"{_CROWD}::test_one_case_of_several_processes",
    ),
    Mutant(
        "case: the whole is done or none of it",
        _CASES,
        "        page = orders[start : start + step]\n",
        "        page = orders\n",
        f"{_CROWD}::test_killed_after_each_of_its_statements",
    ),
    Mutant(
        "case: one that is refused leaves what it has begun",
        _CASES,
        "            with one_of_many(subject, alias):\n",
        "            if one_of_many:\n",
        "tests/kinds/test_cases.py::TestRefused::test_the_others_go_on",
    ),
    Mutant(
        "case: counters in the order of the caller",
        _CASES,
        "for subject in sorted(amounts, key=_in_order)",
        "for subject in amounts",
        f"{_CROWD}::test_many_at_once_against_batches_of_increments",
    ),
    Mutant(
        "case: two keys of one record",
        _CASES,
        "        if subject in found:\n",
        "        if False:\n",
        "tests/kinds/test_cases.py::TestBadInput::test_two_keys_of_one_record",
    ),
    Mutant(
        "file: lines are rows",
        "django_counters/management/adjusting.py",
        "(reader.line_num, row) for row in reader",
        "(number, row) for number, row in enumerate(reader, 2)",
        "tests/management/test_adjust_command.py::TestFile::test_a_counter_that_stands_there_twice",
    ),
)
