"""Mutants change what is there, and name tests that are there: a run of all takes a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_it_changes_is_there(mutant: Mutant) -> None:
    assert mutant.old in (ROOT / mutant.file).read_text()
    assert mutant.old != mutant.new
    file, _, name = mutant.test.partition("::")
    assert (ROOT / file).is_file()
    for part in name.partition("[")[0].split("::"):
        assert part in (ROOT / file).read_text()


def test_each_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)
