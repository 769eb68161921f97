"""The directive ``{from-code} NAME``: a table of the reference that is read from the code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import django_counters
from django_counters import access, conf, errors
from django_counters.contrib.streams import declared as streams
from django_counters.features import actions
from django_counters.metrics import samples
from django_counters.options import Option

Row = tuple[str, ...]
PACKAGE = Path(django_counters.__file__).resolve().parent
CHECK_CODE = re.compile(r"[EW]\d{3}")
SIGNAL = re.compile(r"^((?:#:.*\n)+)(\w+) = \w*Signal\(", re.MULTILINE)
OF_SETTING, OF_FIELDS = "the `COUNTERS` setting", "counter fields"
SUBJECTS = {
    "conf.py": OF_SETTING,
    "apps.py": OF_SETTING,
    "checks.py": "databases",
    "columns.py": "lists of the admin",
    "decimals.py": OF_FIELDS,
    "problems.py": OF_FIELDS,
    "cached/state.py": "the Redis of cached counters",
    "limit.py": "settings",
    "rest/ready.py": "view sets",
    "streams/declared.py": "settings",
}
LEVELS = {"E": "error", "W": "warning"}
# What is written as code: words in quotation marks, and those that Python knows.
LITERAL = re.compile(r"(?<!`)('[^' ]+'|\b(?:None|True|False|CACHES)\b)(?!`)")
RULES = ", ".join(f"`{rule!r}`" for rule in access.RULES if rule != access.ANYONE)
OR_CLASS = "or the path of a permission class"
ACCESS = {
    "read": (f"`{access.ANYONE!r}`, {RULES}, {OR_CLASS}", "Who reads values."),
    "increment": (f"{RULES}, `{access.BEACON!r}`, {OR_CLASS}", "Who adds."),
    "decrement": (f"{RULES}, {OR_CLASS}", "Who takes away."),
    "hold": (
        f"{RULES}, {OR_CLASS}",
        "Who holds, and releases or extends what they hold. Committing needs `decrement`.",
    ),
    "adjust": (f"{RULES}, {OR_CLASS}", "Who corrects, with a reason; always somebody logged in."),
    "history": (
        f"`{access.ANYONE!r}`, {RULES}, {OR_CLASS}",
        "Who sees how a counter went. Not for fields: they have no history.",
    ),
    "list": (
        f"`{access.ANYONE!r}`, {RULES}, {OR_CLASS}",
        "Who lists the counters of the namespace, with their values. Not for fields.",
    ),
    "approve": (
        f"{RULES}, {OR_CLASS}",
        "Who decides on requests for adjustments, except on their own; always somebody logged in. "
        "They see the requests, and the value.",
    ),
    "max_delta": (
        "integer above 0",
        "By how much one call may change a counter. Without a login it is 1. Not for `adjust`.",
    ),
    "max_counters": (
        "integer above 0",
        "How many counters of the namespace may come into being over HTTP. Not for fields.",
    ),
    "names": (
        "regular expression, or function of the name",
        "Which counters may come into being over HTTP: the name is what stands behind the colon, "
        "and all of it has to match. `None`: any. Not for fields.",
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
    "burst": (
        "integer above 0, below the number of the rate",
        "How many of `limit` there may be at once. `None`: as many as the rate has. "
        "What [is admitted then](../limits.md#what-is-admitted).",
    ),
    "network_limits": (
        "dictionary, such as `{56: '120/min', 48: '600/min'}`",
        "How many changes all addresses of an IPv6 network may make together, without a login: the "
        "bits of the network, from 16 to 63, and a rate. `limit` is for each /64.",
    ),
    "who": (
        f"`{access.ADDRESS!r}`",
        "By what visitors are told apart who are not logged in and say no `who`, where [distinct "
        "actors](../uniques.md) are counted. Empty: they are not counted as "
        "actors.",
    ),
}


def settings_rows() -> Iterator[Row]:
    """The options of a namespace."""
    owners = conf.owners()
    for option in conf.namespace_options():
        *row, meaning = _row(option)
        owner = owners.get(option.name)
        yield *row, f"{meaning} Only with `{owner!r}`." if owner else meaning


def fields_rows() -> Iterator[Row]:
    """The arguments of a field."""
    for option in conf.COMMON:
        yield _row(option._replace(name=option.key))
    for option in conf.field_options("exact").values():
        yield _row(option)


def _row(option: Option) -> Row:
    name, default = f"`{option.name}`", f"`{option.default!r}`"
    expected, meaning = (LITERAL.sub(r"`\1`", one) for one in (option.expected, option.meaning))
    return name, expected, default, meaning


def access_rows() -> Iterator[Row]:
    """What the `API` of a namespace can have."""
    defaults = {field.name: field.default for field in fields(access.Access)}
    del defaults["added"]
    _all_explained(ACCESS, {*defaults, *actions()})
    for name, (value, meaning) in ACCESS.items():
        default = "nobody" if name in (*access.ACTIONS, *actions()) else f"`{defaults[name]!r}`"
        default = {"network_limits": "`{}`"}.get(name, default)
        yield f"`{name!r}`", value, default, meaning


def streams_rows() -> Iterator[Row]:
    """The options of each stream."""
    yield from map(_row, streams.OPTIONS)


def backend_rows(name: str) -> Iterator[Row]:
    """The options that streams of one backend have besides."""
    yield from map(_row, streams.BACKENDS[name].options)


def options_rows() -> Iterator[Row]:
    """The options of the strategies of named counters."""
    for strategy in conf.strategies().values():
        for option in strategy.namespaces or ():
            if not option.name.isupper():
                _, *row = _row(option)
                yield f"`{option.name!r}`", f"`{strategy.name!r}`", *row


def _all_explained(rows: Collection[object], known: Collection[object]) -> None:
    if set(rows) != set(known):
        raise LookupError(f"docs/_ext/from_code.py has to explain exactly {known}")


def strategies_rows() -> Iterator[Row]:
    """The strategies of this version."""
    for one in conf.declarations():
        users = ["named counters"] * (one.namespaces is not None)
        users += ["fields"] * (one.fields is not None)
        bounds = ["floor"] * one.can.floors + ["ceiling"] * one.can.ceilings
        held = " and ".join(bounds) or "none"
        yield f"`{one.name!r}`", ", ".join(users), held, _first_line(one.made)


def errors_rows() -> Iterator[Row]:
    """All errors and what they carry, the base first."""
    found = sorted(PACKAGE.glob("contrib/*/errors.py"))
    paths = [f"django_counters.contrib.{path.parent.name}.errors" for path in found]
    modules = [errors, *map(import_module, paths)]
    for cls in (one for module in modules for one in _own_classes(module)):
        if issubclass(cls, errors.CounterError):
            bases = [base for base in cls.__bases__ if base is not errors.CounterError]
            message = re.sub(r"\{(\w+)[^}]*\}", r"*\1*", _first_line(cls))
            carried = inspect.get_annotations(cls)
            yield f"`{cls.__name__}`", _listed(map(_importable, bases)), message, _listed(carried)


def _own_classes(module: ModuleType) -> Iterator[type]:
    for one in vars(module).values():
        if inspect.isclass(one) and one.__module__ == module.__name__:
            yield one


def _importable(cls: type) -> str:
    """The name under which people import a class."""
    module = cls.__module__.removesuffix(".utils")
    return cls.__name__ if module == "builtins" else f"{module}.{cls.__name__}"


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def metrics_rows() -> Iterator[Row]:
    """All metrics: those that are counted as it happens, and those that are asked on a scrape."""
    for when, metrics in (("as it happens", samples.happened()), ("on a scrape", samples.state())):
        for one in metrics:
            yield f"`{one.name}`", one.kind, _listed(one.labels), when, one.meaning


def signals_rows() -> Iterator[Row]:
    """All signals and their arguments, as the comments above them say."""
    for comment, name in SIGNAL.findall((PACKAGE / "signals.py").read_text(encoding="utf-8")):
        text = " ".join(line.removeprefix("#:").strip() for line in comment.splitlines())
        meaning, _, arguments = text.replace("``", "`").partition(" Arguments: ")
        yield f"`{name}`", arguments.rstrip("."), meaning


def checks_rows() -> Iterator[Row]:
    """All messages of all system checks, in the order of the ids."""
    found = {
        # What is filled in behind the last sentence is a guess of what was meant.
        (code, _subject(path), re.sub(r"\.…$", ".", message))
        for path in PACKAGE.rglob("*.py")
        for code, message in _reports(ast.parse(path.read_text(encoding="utf-8")))
    } | set(_declared())
    # A message that is filled in altogether says nothing beside another one of the same check.
    told = {code for code, _, message in found if re.search("[a-z]", message)}
    for code, subject, message in sorted(found, key=lambda row: (row[0][1:], row)):
        if code not in told or re.search("[a-z]", message):
            link = f"[counters.{code}](#counters-{code.lower()})"
            yield link, LEVELS[code[0]], subject, message


def _subject(path: Path) -> str:
    return SUBJECTS.get(f"{path.parent.name}/{path.name}") or SUBJECTS.get(path.name, path.name)


def _declared() -> Iterator[Row]:
    """What options and projections declare: the id of a check, what it looks at, its message."""
    namespaces = [option for one in conf.strategies().values() for option in one.namespaces or ()]
    for option in (*namespaces, *conf.namespace_options()):
        code = option.code or ("E019" if option.name.isupper() else "E008")
        yield from ((code, OF_SETTING, text) for text in _wrong(option))
    limit = conf.COMMON[-1]
    yield from (("E024", OF_FIELDS, text) for text in _wrong(limit._replace(name=limit.key)))
    for option in conf.field_options("exact").values():
        yield from ((option.code or "E020", OF_FIELDS, text) for text in _wrong(option))
    for one in conf.projections():
        tree = ast.parse(Path(inspect.getfile(one.problems)).read_text(encoding="utf-8"))
        for text in _texts(one.problems.__name__, tree):
            yield one.in_namespaces, OF_SETTING, text
            yield one.in_fields, OF_FIELDS, text


def _wrong(option: Option) -> Iterator[str]:
    """What an option says of a value that it does not accept."""
    yield from (text.replace("not Ellipsis", "not …") for text in option.problems(...))


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
    for code in filter(CHECK_CODE.fullmatch, inside):
        for text in _texts(getattr(getattr(over, "func", None), "id", None), tree):
            yield code, text


def _texts(called: str | None, tree: ast.AST) -> Iterator[str]:
    """What a function yields, be it of this module or of one that this module imports it from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(name.name == called for name in node.names):
            path = PACKAGE.parent.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if path.is_file():
                yield from _texts(called, ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == called:
            for one in ast.walk(node):
                if isinstance(one, ast.Yield) and one.value is not None:
                    yield _text(one.value)
                if isinstance(one, ast.YieldFrom):
                    yield from _texts(getattr(getattr(one.value, "func", None), "id", None), tree)


def _text(node: ast.expr) -> str:
    """The text of a literal; an ellipsis where something is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    return str(node.value) if isinstance(node, ast.Constant) else "…"


TABLES: dict[str, tuple[Callable[[], Iterator[Row]], Row]] = {
    "settings": (settings_rows, ("Option", "Value", "Default", "Meaning")),
    "access": (access_rows, ("Key", "Value", "Default", "Meaning")),
    "fields": (fields_rows, ("Argument", "Value", "Default", "Meaning")),
    "streams": (streams_rows, ("Option", "Value", "Default", "Meaning")),
    **{
        f"streams-{name}": (partial(backend_rows, name), ("Option", "Value", "Default", "Meaning"))
        for name in streams.BACKENDS
    },
    "options": (options_rows, ("Option", "Of", "Value", "Default", "Meaning")),
    "strategies": (strategies_rows, ("Strategy", "Of", "Floor and ceiling", "In short")),
    "checks": (checks_rows, ("Id", "Level", "Looks at", "Message")),
    "errors": (errors_rows, ("Error", "Is also a", "Message", "Attributes")),
    "metrics": (metrics_rows, ("Metric", "Kind", "Labels", "Read", "Meaning")),
    "signals": (signals_rows, ("Signal", "Arguments", "When it is sent")),
}


def table(name: str) -> str:
    """A table in Markdown."""
    rows, head = TABLES[name]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


class FromCode(SphinxDirective):
    """Puts a table where it stands."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"no table is called {name!r}; there are: {', '.join(TABLES)}")
        return self.parse_text_to_nodes(table(name))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("from-code", FromCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
