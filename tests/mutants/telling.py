"""What tells of changes must neither tell twice nor fail a count; and the tests that guard it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CHANGES = "tests/metrics/test_changes.py"

TELLING = (
    Mutant(
        "telling: a repeated token is told again",
        "django_counters/kinds/applying.py",
        "all(value.replayed for value in values.values())",
        "False",
        f"{_CHANGES}::test_a_repeated_token_is_not_seen",
    ),
    Mutant(
        "telling: what is refused is told",
        "django_counters/kinds/number.py",
        "        found = [strategy.apply(batch) for strategy, batch in batches]\n",
        "        found = [applied(strategy, batch, alias) for strategy, batch in batches]\n",
        f"{_CHANGES}::test_what_is_refused_is_not_seen",
    ),
    Mutant(
        "telling: a receiver without a name fails a count",
        "django_counters/signals.py",
        "        except Exception:\n",
        "        except ZeroDivisionError:\n",
        f"{_CHANGES}::TestTheSignal::test_a_receiver_without_a_name_that_fails_fails_nothing",
    ),
    Mutant(
        "metrics: findings without a part that is away",
        "django_counters/metrics/gathering.py",
        "    if _is_whole(found):\n",
        "    if True:\n",
        "tests/metrics/test_state.py::test_a_part_that_is_away_hides_no_other",
    ),
)
