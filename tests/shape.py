"""Prints how the package is cut, in numbers: ``python -m tests.shape``.

Most are read from the sources: how large the package is, how many of its files need each other, how
many functions have one caller, and who asks which strategy a counter has instead of asking what it
can do. A plain project says what it loads and which tables it has.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = "django_counters"
STRATEGIES = {"exact", "sharded", "slotted", "ledger", "cached"}
CLASSES = {"Exact", "Sharded", "Slotted", "Ledger", "Cached", "CachedAsExact"}
# Where strategies are declared and made.
ROOMS_OF_STRATEGIES = ("strategies/", "cached/")
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
# A project on SQLite. Called with the path of its database and ``migrate``, it makes the tables.
# Called with the path alone, as a worker of the site, it counts an exact counter; prints the files
# of the package that it loaded, its tables, and the files that an increment and an adjustment walk
# through, one for each call.
PLAIN = """
import json, os, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_counters"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
)
django.setup()
if sys.argv[2:] == ["migrate"]:
    from django.core.management import call_command
    call_command("migrate", verbosity=0)
    sys.exit()
from django.db import connection
from django_counters.models import Counter
assert Counter.objects.increment("a") == 1
names = [name for name in sys.modules if name.split(".")[0] == "django_counters"]
files = [sys.modules[name].__file__ for name in names if ".migrations" not in name]
tables = connection.introspection.table_names()

def walked(work):
    for _ in range(5):
        work()
    walk = []
    def hear(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and os.sep + "django_counters" + os.sep in name:
            walk.append(name)
    sys.setprofile(hear)
    work()
    sys.setprofile(None)
    return walk

def adjust():
    Counter.objects.adjust("a", by=1, reason="counted by hand", actor="a clerk")

walks = [walked(lambda: Counter.objects.increment("a")), walked(adjust)]
tables = [name for name in tables if name.startswith("django_counters")]
print(json.dumps([files, tables, *walks]))
"""
# No number may grow: a change that lowers one lowers it here.
MOST = {
    "lines of code": 36_433,
    "tables of a plain project": 15,
    "modules that it loads to count": 60,
    "their lines of code": 8_093,
    "files of an increment": 9,
    "moves of an increment": 11,
    "files of an adjustment": 13,
    "moves of an adjustment": 54,
    "lines of imports": 4_236,
    "classes of one name": 0,
    "modules of one name in the core": 5,
    "files of less than 60 lines": 13,
    "private functions used once": 325,
}
# Names that Django wants, capabilities, and the SQL of each database.
REPEATED = re.compile(r"(.*/)?(__init__|models|checks)\.py$|contrib/|stores/sql/dialects/")
NO_CHAPTERS = re.compile(r"(.*/)?(__init__|apps|urls|errors)\.py$|(.*/)?migrations/|templatetags/")


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

    @property
    def code_lines(self) -> int:
        """The same without docstrings, comments and blank lines."""
        return sum(len(_code(one)) for one in self.sources)

    @property
    def import_lines(self) -> int:
        """How many of those are imports."""
        return sum(
            (node.end_lineno or 0) - node.lineno + 1
            for one in self.sources
            for node in ast.walk(one.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        )

    @cached_property
    def circles(self) -> list[list[str]]:
        """The modules that need each other, also for types alone."""
        known = {one.module for one in self.sources}
        needs = {one.module: set(_imported(one, known)) - {one.module} for one in self.sources}
        return [circle for circle in _circles(needs) if len(circle) > 1]

    @cached_property
    def repeated_classes(self) -> list[str]:
        """The names that several classes have, apart from migrations."""
        nodes = (node for one in self.sources for node in one.tree.body)
        names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
        return sorted(name for name, times in names.items() if times > 1 and name != "Migration")

    @cached_property
    def repeated_modules(self) -> list[str]:
        """The names that several modules of the core have."""
        files = (one.path for one in self.sources if not REPEATED.match(one.within))
        return sorted(name for name, times in Counter(f.stem for f in files).items() if times > 1)

    @cached_property
    def small(self) -> list[str]:
        """The files that are less than a chapter, apart from those that Django wants."""
        return [
            one.within
            for one in self.sources
            if not NO_CHAPTERS.match(one.within)
            if len(one.path.read_text("utf-8").splitlines()) < 60
        ]

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


def _code(source: Source) -> set[int]:
    with source.path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in NO_CODE]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(source.tree):
        match node:
            case (
                ast.Module(body=[ast.Expr(ast.Constant(str())) as doc, *_])
                | ast.ClassDef(body=[ast.Expr(ast.Constant(str())) as doc, *_])
                | ast.FunctionDef(body=[ast.Expr(ast.Constant(str())) as doc, *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(ast.Constant(str())) as doc, *_])
            ):
                lines -= set(range(doc.lineno, (doc.end_lineno or 0) + 1))
    return lines


class Plain(NamedTuple):
    """A plain project: what it loads to count once, its tables, and two walks through files."""

    files: list[str]
    tables: list[str]
    increment: list[str]
    adjustment: list[str]


@cache
def plain_project() -> Plain:
    """A project with nothing but the app counts and adjusts one exact counter."""
    with TemporaryDirectory() as folder:
        run = [sys.executable, "-c", PLAIN, f"{folder}/database"]
        subprocess.run([*run, "migrate"], cwd=ROOT, check=True)
        done = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True)
    return Plain(*json.loads(done.stdout))


def numbers(shape: Shape) -> dict[str, int]:
    """The numbers of `MOST`, as they are."""
    plain = plain_project()
    loaded = {Path(file) for file in plain.files}
    found = {
        "lines of code": shape.code_lines,
        "tables of a plain project": len(plain.tables),
        "modules that it loads to count": len(plain.files),
        "their lines of code": sum(len(_code(one)) for one in shape.sources if one.path in loaded),
    }
    for name, walk in (("increment", plain.increment), ("adjustment", plain.adjustment)):
        found[f"files of an {name}"] = len(set(walk))
        found[f"moves of an {name}"] = sum(a != b for a, b in pairwise(walk))
    return {
        **found,
        "lines of imports": shape.import_lines,
        "classes of one name": len(shape.repeated_classes),
        "modules of one name in the core": len(shape.repeated_modules),
        "files of less than 60 lines": len(shape.small),
        "private functions used once": shape.used_once[0],
    }


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
    _, private = shape.used_once
    rows = {
        "files": len(shape.sources),
        "lines": shape.lines,
        **numbers(shape),
        "circles of files": len(shape.circles),
        "files in circles": sum(map(len, shape.circles)),
        "private functions": private,
        "questions which strategy it is": len(shape.questions),
    }
    for name, number in rows.items():
        print(f"{name:32} {number}")
    if "--all" in arguments:
        names = (shape.repeated_classes, shape.repeated_modules, shape.small)
        print(*shape.circles, *shape.questions, *names, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
