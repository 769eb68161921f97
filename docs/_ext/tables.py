"""Tables of the reference, read from the code so that they cannot drift from it.

Needs Django but not Sphinx: the tests ask the same functions.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import django_counters
from django_counters import access, conf, exceptions

PACKAGE = Path(django_counters.__file__).resolve().parent
CHECK_CODE = re.compile(r"[EW]\d{3}")
SIGNAL = re.compile(r"^((?:#:.*\n)+)(\w+) = \w*Signal\(", re.MULTILINE)
SUBJECTS = {
    "conf.py": "the `COUNTERS` setting",
    "checks.py": "databases",
    "problems.py": "counter fields",
    "backlog.py": "the Redis of cached counters",
}
# What an option means is prose; which options there are, and their defaults, is read.
MEANINGS = {
    "STRATEGY": "Where increments wait for their rollup.",
    "FLOOR": "Counting never takes a counter below it: `InsufficientCount` is raised instead.",
    "CEILING": "Counting never takes a counter above it: `CeilingExceeded` is raised instead.",
    "CACHE": "Which Redis keeps what waits. Only with `'cached'`.",
    "ON_REDIS_DOWN": "Where increments go while that Redis cannot be reached: into the ledger, "
    "into the total, or nowhere (`CounterUnavailable`). Only with `'cached'`.",
    "APPROVE_ABOVE": "By how much one person alone may adjust a counter, up or down; "
    "more needs a second person. `None`: by any amount.",
    "HISTORY": "How often totals are recorded, for a chart. `None`: never. Not with `'ledger'`.",
    "HISTORY_DAYS": "For how many days what was recorded is kept.",
    "API": "Who may reach the counters over HTTP. `None`: nobody.",
    "OPTIONS": "What the strategy lets you choose.",
}
TYPES = {
    "STRATEGY": "one of the strategies below",
    "FLOOR": "integer of 64 bits, or `None` for no floor",
    "CEILING": "integer of 64 bits, or `None` for no ceiling",
    "CACHE": "an alias of `CACHES`, or the URL of a Redis",
    "ON_REDIS_DOWN": f"one of {', '.join(f'`{detour!r}`' for detour in conf.NAMED_DETOURS)}",
    "APPROVE_ABOVE": "integer from 0 on, or `None` for no limit",
    "HISTORY": f"{', '.join(f'`{often!r}`' for often in conf.HISTORIES)}, or `None`",
    "HISTORY_DAYS": f"integer from 1 to {conf.MOST_HISTORY_DAYS:,}",
    "API": "dictionary of [who may what](#api), or `None`",
    "OPTIONS": "dictionary of the options below",
}
# The same for who may reach counters over HTTP.
_RULES = ", ".join(f"`{rule!r}`" for rule in access.RULES if rule != access.ANYONE)
_OR_CLASS = "or the path of a permission class"
ACCESS = {
    "read": (f"`{access.ANYONE!r}`, {_RULES}, {_OR_CLASS}", "Who reads values and histories."),
    "increment": (f"{_RULES}, `{access.BEACON!r}`, {_OR_CLASS}", "Who adds."),
    "decrement": (f"{_RULES}, {_OR_CLASS}", "Who takes away."),
    "adjust": (f"{_RULES}, {_OR_CLASS}", "Who corrects, with a reason; always somebody logged in."),
    "max_delta": (
        "integer above 0",
        "By how much one call may change a counter. Without a login it is 1. Not for `adjust`.",
    ),
    "max_counters": (
        "integer above 0",
        "How many counters of the namespace may come into being over HTTP. Not for fields.",
    ),
    "origins": (
        "list of origins, such as `'https://example.org'`",
        "The sites that may send beacons. With `'beacon'`, and only then.",
    ),
    "limit": (
        "rate, such as `'60/min'`, `'5/s'` or `'30/10s'`",
        "How many changes one user or address may make; a bulk is as many as it has counters. "
        "`'beacon'` needs one. Empty: any number.",
    ),
}
# The same for the options of the strategies.
CHOICES = {
    ("exact", "combine"): (
        "`True` or `False`",
        "Threads of one process that count at the same moment share one statement.",
    ),
    ("sharded", "shards"): (
        f"`{conf.AUTO!r}`, or an integer from 1 to {conf.LARGEST_NUMBER:,}",
        "How many rows a counter may have. "
        f"`{conf.AUTO!r}`: as many as its writers need, up to {conf.MOST_SHARDS}.",
    ),
    ("ledger", "retention_days"): (
        f"`None`, or an integer of {conf.LEAST_RETENTION} or more",
        "For how many days entries are kept. `None`: for ever. "
        "The longest of all ledger namespaces counts for all.",
    ),
    ("cached", "max_age"): (
        "seconds, above 0",
        'How old a total may be where a read with `consistency="cached"` does not say it.',
    ),
    ("cached", "timeout"): (
        "seconds, above 0",
        "How long to wait for Redis: for the connection, and for each answer.",
    ),
}


class CheckRow(NamedTuple):
    """One message of one system check."""

    code: str
    level: str
    subject: str
    message: str


class ErrorRow(NamedTuple):
    """One class of errors."""

    name: str
    bases: str
    message: str
    attributes: str


def settings_table() -> str:
    """The options of a namespace."""
    if set(MEANINGS) != set(conf.OPTIONS) or set(TYPES) != set(conf.OPTIONS):
        raise LookupError(f"docs/_ext/tables.py has to explain exactly {conf.OPTIONS}")
    rows = [(f"`{o}`", TYPES[o], f"`{_default(o)!r}`", MEANINGS[o]) for o in conf.OPTIONS]
    return _table(("Option", "Value", "Default", "Meaning"), rows)


def _default(option: str) -> object:
    policy = conf.Policy()
    known: dict[str, object] = {
        "OPTIONS": {},
        "CACHE": conf.DEFAULT,
        "ON_REDIS_DOWN": conf.NAMED_DETOURS[0],
        "HISTORY": None,
        "API": None,
    }
    if option in known:
        return known[option]
    if option == "STRATEGY":
        return policy.recipe.strategy
    if hasattr(policy.bounds, option.lower()):
        return getattr(policy.bounds, option.lower())
    return getattr(policy, option.lower())


def access_table() -> str:
    """What the `API` of a namespace can have."""
    defaults = {field.name: field.default for field in fields(access.Access)}
    if set(ACCESS) != set(defaults):
        raise LookupError(f"docs/_ext/tables.py has to explain exactly {sorted(defaults)}")
    rows = [
        (f"`{name!r}`", type_, _or_nobody(name, defaults[name]), meaning)
        for name, (type_, meaning) in ACCESS.items()
    ]
    return _table(("Key", "Value", "Default", "Meaning"), rows)


def _or_nobody(name: str, default: object) -> str:
    return "nobody" if name in access.ACTIONS else f"`{default!r}`"


def options_table() -> str:
    """The options of the strategies of named counters."""
    known = {
        (name, option) for name, options in conf.NAMED_STRATEGIES.items() for option in options
    }
    if set(CHOICES) != known:
        raise LookupError(f"docs/_ext/tables.py has to explain exactly {sorted(known)}")
    defaults = {
        "combine": conf.EXACT.combine,
        "shards": conf.AUTO,
        "retention_days": conf.Policy().retention_days,
        "max_age": conf.MAX_AGE,
        "timeout": conf.TIMEOUT,
    }
    rows = [
        (f"`{option!r}`", f"`{name!r}`", type_, f"`{defaults[option]!r}`", meaning)
        for (name, option), (type_, meaning) in CHOICES.items()
    ]
    return _table(("Option", "Of", "Value", "Default", "Meaning"), rows)


def strategies_table() -> str:
    """The strategies of this version."""
    rows = []
    for name in dict.fromkeys((*conf.NAMED_STRATEGIES, *conf.FIELD_STRATEGIES)):
        module = __import__(f"django_counters.strategies.{name}", fromlist=[name])
        promise = first_line(getattr(module, name.capitalize()))
        bounds = "yes" if name in conf.BOUNDED_STRATEGIES else "no"
        rows.append((f"`{name!r}`", _users(name), bounds, promise))
    return _table(("Strategy", "Of", "Floor and ceiling", "In short"), rows)


def _users(strategy: str) -> str:
    named = ["named counters"] * (strategy in conf.NAMED_STRATEGIES)
    return ", ".join(named + ["fields"] * (strategy in conf.FIELD_STRATEGIES))


def checks_table() -> str:
    """All messages of all system checks."""
    rows = [(f"[counters.{code}](#counters-{code.lower()})", *rest) for code, *rest in check_rows()]
    return _table(("Id", "Level", "Looks at", "Message"), rows)


def check_rows() -> Sequence[CheckRow]:
    """What the package reports, in the order of the ids."""
    found = {
        CheckRow(
            code,
            "error" if code[0] == "E" else "warning",
            SUBJECTS.get(path.name, path.name),
            # What is filled in behind the last sentence is a guess of what was meant.
            message.removesuffix(".…") + "." * message.endswith(".…"),
        )
        for path in sorted(PACKAGE.rglob("*.py"))
        for code, message in _reports(ast.parse(path.read_text(encoding="utf-8")))
    }
    # A message that is filled in altogether says nothing beside another one of the same check.
    told = {row.code for row in found if _says_something(row)}
    kept = (row for row in found if _says_something(row) or row.code not in told)
    return sorted(kept, key=lambda row: (row.code[1:], row))


def _says_something(row: CheckRow) -> bool:
    return bool(re.search("[a-z]", row.message))


def _reports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Every place where a code stands directly before a text, or beside a function that has it."""
    for node in ast.walk(tree):
        words = node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])
        for code, text in pairwise(words):
            if isinstance(code, ast.Constant) and CHECK_CODE.fullmatch(str(code.value)):
                yield str(code.value), _text(text)
        if isinstance(node, ast.GeneratorExp):
            yield from _yielded(node.elt, node.generators[-1].iter, tree)
        if isinstance(node, ast.For) and len(node.body) == 1:
            yield from _yielded(node.body[0], node.iter, tree)


def _yielded(body: ast.AST, over: ast.expr, tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The texts of a loop over a function, where its body has one fixed code."""
    inside = [str(node.value) for node in ast.walk(body) if isinstance(node, ast.Constant)]
    called = getattr(getattr(over, "func", None), "id", None)
    for code in filter(CHECK_CODE.fullmatch, inside):
        for text in _texts(called, tree):
            yield code, text


def _texts(called: str | None, tree: ast.AST) -> Iterator[str]:
    """What a function yields, be it of this module or of one that this module imports it from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == called:
            yield from _texts_of(node, tree)
        if isinstance(node, ast.ImportFrom) and any(name.name == called for name in node.names):
            yield from _texts(called, _module(node.module or ""))


def _texts_of(function: ast.FunctionDef, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Yield) and node.value is not None:
            yield _text(node.value)
        if isinstance(node, ast.YieldFrom) and isinstance(node.value, ast.Call):
            yield from _texts(getattr(node.value.func, "id", None), tree)


def _module(name: str) -> ast.AST:
    path = PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])


def _text(node: ast.expr) -> str:
    """The text of a literal; an ellipsis where something is filled in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    return "…"


def errors_table() -> str:
    """All errors and what they carry."""
    rows = [(f"`{row.name}`", row.bases, row.message, row.attributes) for row in error_rows()]
    return _table(("Error", "Is also a", "Message", "Attributes"), rows)


def error_rows() -> Sequence[ErrorRow]:
    """The classes of `django_counters.exceptions`, the base first."""
    return [_error_row(cls) for cls in error_classes()]


def error_classes() -> Sequence[type[exceptions.CounterError]]:
    """The base and its subclasses, in the order in which the module defines them."""
    return [
        value
        for value in vars(exceptions).values()
        if inspect.isclass(value) and issubclass(value, exceptions.CounterError)
    ]


def _error_row(cls: type[exceptions.CounterError]) -> ErrorRow:
    bases = [base for base in cls.__bases__ if base is not exceptions.CounterError]
    return ErrorRow(
        cls.__name__,
        ", ".join(f"`{_importable(base)}`" for base in bases),
        re.sub(r"\{(\w+)[^}]*\}", r"*\1*", first_line(cls)),
        ", ".join(f"`{name}`" for name in inspect.get_annotations(cls)),
    )


def _importable(cls: type) -> str:
    """The name under which people import a class."""
    module = cls.__module__.removesuffix(".utils")
    return cls.__name__ if module == "builtins" else f"{module}.{cls.__name__}"


def first_line(cls: type) -> str:
    """The first line of a docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]


def metrics_table() -> str:
    """All metrics: those that are counted as it happens, and those that are asked on a scrape."""
    names = _metric_names()
    groups = (("as it happens", names.HAPPENED), ("on a scrape", names.STATE))
    rows = [
        (
            f"`{one.name}`",
            one.kind,
            ", ".join(f"`{label}`" for label in one.labels),
            when,
            one.meaning,
        )
        for when, metrics in groups
        for one in metrics
    ]
    return _table(("Metric", "Kind", "Labels", "Read", "Meaning"), rows)


def _metric_names() -> ModuleType:
    """The module alone: the rest of its package needs prometheus_client."""
    spec = importlib.util.spec_from_file_location("names", PACKAGE / "metrics" / "names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def signals_table() -> str:
    """All signals and their arguments, as the comments above them say."""
    source = (PACKAGE / "signals.py").read_text(encoding="utf-8")
    rows = []
    for comment, name in SIGNAL.findall(source):
        text = " ".join(line.removeprefix("#:").strip() for line in comment.splitlines())
        meaning, _, arguments = text.replace("``", "`").partition(" Arguments: ")
        rows.append((f"`{name}`", arguments.rstrip("."), meaning))
    return _table(("Signal", "Arguments", "When it is sent"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "access": access_table,
    "options": options_table,
    "strategies": strategies_table,
    "checks": checks_table,
    "errors": errors_table,
    "metrics": metrics_table,
    "signals": signals_table,
}
