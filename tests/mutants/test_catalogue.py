"""Mutants change what is there, and name tests that are there: a run of all takes a while."""

from __future__ import annotations

import ast
import builtins
import dis
from functools import cache
from types import CodeType

import pytest

from tests.mutants.mutant import MUTANTS, ROOT, Mutant, named, parsed


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_it_changes_is_there(mutant: Mutant) -> None:
    assert _meaning(mutant.text()) != _meaning(mutant.file.read_text())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_test_is_there(mutant: Mutant) -> None:
    file, *names = mutant.test.partition("[")[0].split("::")
    assert ".".join(names) in {"", *dict(named(parsed((ROOT / file).read_text()).body))}


def test_each_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)


def test_none_is_in_a_migration() -> None:
    """The databases of all trials are copies of one that was migrated without a mutant."""
    assert not [mutant.name for mutant in MUTANTS if ".migrations" in mutant.module]


@cache
def _meaning(text: str) -> str:
    return ast.dump(ast.parse(text))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_uses_no_name_that_is_not_there(mutant: Mutant) -> None:
    """Else it may be noticed by that, in a process or a callback where nobody sees it."""
    before = compile(mutant.file.read_text(), "before", "exec")
    after = compile(mutant.text(), "after", "exec")
    made = {one.argval for one in dis.get_instructions(after) if one.opname == "STORE_NAME"}
    assert _asked(after) <= _asked(before) | made | set(dir(builtins))


def _asked(code: CodeType) -> set[str]:
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    own = {one.argval for one in dis.get_instructions(code) if one.opname in loads}
    return own.union(*(_asked(each) for each in code.co_consts if isinstance(each, CodeType)))
