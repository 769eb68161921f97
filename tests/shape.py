"""Prints how the package is cut, in numbers: ``python -m tests.shape``.

The numbers are read from the sources: how large the package is, how many of its files need each
other, how many functions have one caller, and who asks which strategy a counter has instead of
asking what it can do.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = "django_counters"
STRATEGIES = {"exact", "sharded", "slotted", "ledger", "cached"}
CLASSES = {"Exact", "Sharded", "Slotted", "Ledger", "Cached", "CachedAsExact", "Combining"}
# Where strategies are declared and made.
ROOMS_OF_STRATEGIES = ("strategies/",)


class Source(NamedTuple):
    """One file of the package."""

    path: Path
    tree: ast.Module

    @property
    def module(self) -> str:
        """The name that it is imported by."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def within(self) -> str:
        """Where it stands in the package."""
        return self.path.relative_to(ROOT / PACKAGE).as_posix()


class Shape:
    """The package as it stands in the sources."""

    def __init__(self) -> None:
        paths = sorted((ROOT / PACKAGE).rglob("*.py"))
        self.sources = [Source(path, ast.parse(path.read_text("utf-8"))) for path in paths]

    @property
    def lines(self) -> int:
        """Lines of Python."""
        return sum(len(one.path.read_text("utf-8").splitlines()) for one in self.sources)

    @cached_property
    def circles(self) -> list[list[str]]:
        """The modules that need each other, also for types alone."""
        known = {one.module for one in self.sources}
        needs = {one.module: set(_imported(one, known)) - {one.module} for one in self.sources}
        return [circle for circle in _circles(needs) if len(circle) > 1]

    @cached_property
    def used_once(self) -> tuple[int, int]:
        """How many private functions have one use, and how many there are."""
        names: Counter[str] = Counter()
        private: list[str] = []
        for one in self.sources:
            for node in ast.walk(one.tree):
                if isinstance(node, ast.Name | ast.Attribute):
                    names[node.id if isinstance(node, ast.Name) else node.attr] += 1
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    name = node.name
                    if name.startswith("_") and not name.endswith("__"):
                        private.append(name)
        return sum(names[name] == 1 for name in private), len(private)

    @cached_property
    def questions(self) -> list[str]:
        """Where somebody asks which strategy it is."""
        return [
            f"{one.within}:{node.lineno}"
            for one in self.sources
            if not one.within.startswith(ROOMS_OF_STRATEGIES)
            for node in ast.walk(one.tree)
            if isinstance(node, ast.Compare | ast.Call) and _asks(node)
        ]


def _imported(source: Source, known: set[str]) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for name in node.names:
                submodule = f"{node.module}.{name.name}"
                yield submodule if submodule in known else node.module


def _circles(needs: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """The strongly connected components: Kosaraju's two walks."""
    ended: list[str] = []
    seen: set[str] = set()
    for start in needs:
        ended.extend(_walk(start, needs, seen))
    users: dict[str, set[str]] = {name: set() for name in needs}
    for name, others in needs.items():
        for other in others:
            users[other].add(name)
    seen = set()
    for start in reversed(ended):
        circle = list(_walk(start, users, seen))
        if circle:
            yield sorted(circle)


def _walk(start: str, needs: Mapping[str, set[str]], seen: set[str]) -> Iterator[str]:
    """All that can be reached and was not seen, each after what it needs."""
    if start in seen:
        return
    seen.add(start)
    open_: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(needs[start])))]
    while open_:
        name, others = open_[-1]
        new = next((other for other in others if other not in seen), None)
        if new is None:
            open_.pop()
            yield name
        else:
            seen.add(new)
            open_.append((new, iter(sorted(needs[new]))))


def _asks(node: ast.Compare | ast.Call) -> bool:
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        return called == "isinstance" and bool(CLASSES & set(_names(node.args[1:])))
    sides = [node.left, *node.comparators]
    asked = any(name == "strategy" for name in _names(sides))
    return asked and bool(STRATEGIES & set(_texts(sides)))


def _names(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name | ast.Attribute):
                yield part.id if isinstance(part, ast.Name) else part.attr


def _texts(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def main(arguments: list[str]) -> int:
    """Print the numbers; with ``--all`` also what they are made of."""
    shape = Shape()
    once, private = shape.used_once
    rows = {
        "files": len(shape.sources),
        "lines": shape.lines,
        "circles of files": len(shape.circles),
        "files in circles": sum(map(len, shape.circles)),
        "private functions used once": f"{once} of {private} ({once / private:.0%})",
        "questions which strategy it is": len(shape.questions),
    }
    for name, number in rows.items():
        print(f"{name:32} {number}")
    if "--all" in arguments:
        print(*shape.circles, *shape.questions, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
