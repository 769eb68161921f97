"""What a mutant is, and how it is written down.

A catalogue is a text with a part for each mutant: its name; where it is, which is a module and, in
it, a function, a class or a constant; what goes (``-``) and what comes (``+``); and the test that
must notice::

    an exact floor asks the total alone
    django_counters.strategies.exact:Exact._check
    - value = amounts.value if amounts else 0
    + value = (amounts.total or 0) if amounts else 0
    tests/strategies/test_switching.py::TestNamed::test_a_floor_is_asked_of_the_whole_value

What goes must be there exactly once. Its lines are as they are where ``def`` stands at the margin.
Several changes follow each other. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


class NotThere(Exception):
    """A mutant changes something that is not there, or there more than once."""


@dataclass(frozen=True)
class Mutant:
    """One mechanism taken away, and the test that must notice."""

    name: str
    where: str
    changes: tuple[tuple[str, str], ...]
    test: str

    @property
    def module(self) -> str:
        """The module that it changes."""
        return self.where.partition(":")[0]

    @property
    def file(self) -> Path:
        """The file of that module."""
        return ROOT / f"{self.module.replace('.', '/')}.py"

    def text(self) -> str:
        """The text of the module with the change.

        Raises:
            NotThere: the text has gone that it changes.
        """
        before, part, after = self._parted()
        return before + self._changed(part) + after

    def part(self) -> tuple[str, str]:
        """What it changes, as it is and with the change, each as a text of its own.

        Raises:
            NotThere: the text has gone that it changes.
        """
        _, part, _ = self._parted()
        # What stands within a class begins with a margin.
        head = "class _:\n" if part.startswith(" ") else ""
        return head + part, head + self._changed(part)

    def _parted(self) -> tuple[str, str, str]:
        return _parted(self.file.read_text(), self.where.partition(":")[2])

    def _changed(self, part: str) -> str:
        margin = " " * (len(part) - len(part.lstrip(" ")))
        for old, new in self.changes:
            if part.count(_moved(old, margin)) != 1:
                raise NotThere(f"{self.where} has not once: {old}")
            part = part.replace(_moved(old, margin), _moved(new, margin))
        return part


def read(catalogue: str) -> list[Mutant]:
    """The mutants of a text."""
    lines = [line for line in catalogue.split("\n") if not line.startswith("#")]
    parts = "\n".join(lines).strip("\n").split("\n\n")
    return [_mutant(part.split("\n")) for part in parts if part]


def _mutant(lines: Sequence[str]) -> Mutant:
    name, where, *changed, test = lines
    text = "\n".join(changed) + "\n"
    found = re.findall(r"((?:^-(?: .*)?\n)+)((?:^\+(?: .*)?\n)+)", text, re.MULTILINE)
    if "".join(map("".join, found)) != text:
        raise ValueError(f"{name}: every line of a change begins with '- ' or '+ '")
    return Mutant(name, where, tuple((_bare(old), _bare(new)) for old, new in found), test)


def _bare(lines: str) -> str:
    return "\n".join(line[2:] for line in lines.splitlines())


def _moved(text: str, margin: str) -> str:
    """Each line that is one from its beginning is as far to the right as what is changed."""
    return re.sub(r"(?:^(?=  )|(?<=\n)(?=.))", margin, text)


def part_of(text: str, name: str) -> str:
    """Return the text of a function, a class or a constant.

    Raises:
        NotThere: there is no such one, or there are several.
    """
    return _parted(text, name)[1]


def _parted(text: str, name: str) -> tuple[str, str, str]:
    """What is before, in and after a function, a class or a constant."""
    found = [node for path, node in named(parsed(text).body) if path == name]
    if len(found) != 1:
        raise NotThere(f"there are {len(found)} of {name}")
    decorators = getattr(found[0], "decorator_list", [])
    first = min(node.lineno for node in (found[0], *decorators)) - 1
    last = found[0].end_lineno
    lines = text.splitlines(keepends=True)
    return "".join(lines[:first]), "".join(lines[first:last]), "".join(lines[last:])


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a module, many of which are asked for again and again."""
    return ast.parse(text)


def named(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """All that has a name, and its name, as in ``Class.method``."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield prefix + node.name, node
                yield from named(node.body, f"{prefix}{node.name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name, node


CATALOGUES = [f"tests/mutants/catalogue/{one.name}" for one in sorted(HERE.glob("catalogue/*.txt"))]
MUTANTS = [mutant for name in CATALOGUES for mutant in read((ROOT / name).read_text())]
CONTROLS = read((HERE / "controls.txt").read_text())
