"""Mutants change what is there, and name tests that are there: a run of all takes a while."""

from __future__ import annotations

import ast
import builtins
import dis
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType

from tests.mutants.mutant import MUTANTS, ROOT, Mutant, named, parsed

# The names that a piece of code asks for, by its instructions.
_OWN: dict[tuple[bytes, tuple[str, ...]], set[str]] = {}


def test_what_it_changes_is_there() -> None:
    """And something else comes of it."""
    parts = {mutant.name: map(_dumped, mutant.part()) for mutant in MUTANTS}
    assert not [name for name, (before, after) in parts.items() if before == after]


def test_its_test_is_there() -> None:
    assert not [mutant.name for mutant in MUTANTS if not _has_its_test(mutant)]


def _has_its_test(mutant: Mutant) -> bool:
    file, *names = mutant.test.partition("[")[0].split("::")
    return ".".join(names) in _tests(ROOT / file)


@cache
def _tests(file: Path) -> set[str]:
    return {"", *dict(named(parsed(file.read_text()).body))}


def test_each_has_a_name_of_its_own() -> None:
    assert not [name for name, times in Counter(one.name for one in MUTANTS).items() if times > 1]


def test_none_is_in_a_migration() -> None:
    """The databases of all trials are copies of one that was migrated without a mutant."""
    assert not [mutant.name for mutant in MUTANTS if ".migrations" in mutant.module]


def _dumped(text: str) -> str:
    return ast.dump(ast.parse(text))


def test_it_uses_no_name_that_is_not_there() -> None:
    """Else it may be noticed by that, in a process or a callback where nobody sees it."""
    unknown = {mutant.name: _unknown(mutant) for mutant in MUTANTS}
    assert not {name: names for name, names in unknown.items() if names}


def _unknown(mutant: Mutant) -> set[str]:
    # The rest of its module is what it was.
    _, part = mutant.part()
    after = compile(f"from __future__ import annotations\n{part}", "after", "exec")
    return _asked(after) - _made(after) - _known_before(mutant.file) - set(dir(builtins))


@cache
def _known_before(file: Path) -> set[str]:
    before = compile(file.read_text(), "before", "exec")
    return _asked(before) | _made(before)


def _made(code: CodeType) -> set[str]:
    """The names that a module makes."""
    return {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_NAME"}


def _asked(code: CodeType) -> set[str]:
    # Most of a module is what it was: only what is new is taken apart.
    key = code.co_code, code.co_names
    if key not in _OWN:
        loads = ("LOAD_GLOBAL", "LOAD_NAME")
        _OWN[key] = {one.argval for one in dis.get_instructions(code) if one.opname in loads}
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return _OWN[key].union(*map(_asked, inner))
