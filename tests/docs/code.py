"""The prose of the package: messages, docstrings of the reference, and those of developers."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from pydoc import locate

from tests.docs.pages import DOCS, ROOT, text_of

PACKAGE = ROOT / "django_counters"
_DOCUMENTED = re.compile(r"^\.\. auto\w+:: (\S+)$", re.MULTILINE)
# Fewer words are a key, a name or a part of a text.
_FEWEST_WORDS = 4
_NO_MESSAGES = {"migrations", "dialects", "sql.py", "statements.py", "postgresql.py", "sqlite.py"}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documented() -> set[str]:
    """The docstrings of the objects that the reference is generated from, and of their members."""
    pages = (text_of(page) for page in (*DOCS.glob("*.md"), *(DOCS / "reference").glob("*.md")))
    names = {name for page in pages for name in _DOCUMENTED.findall(page)}
    return {text for name in names for text in _docstrings(locate(name))}


def _docstrings(thing: object) -> Iterator[str]:
    if _is_ours(thing):
        yield inspect.cleandoc(thing.__doc__ or "")
    if inspect.isclass(thing) or inspect.ismodule(thing):
        for name, static in inspect.getmembers_static(thing):
            member = getattr(static, "__func__", static)
            is_class = inspect.ismodule(thing) and inspect.isclass(member)
            is_read = is_class or inspect.isroutine(member) or isinstance(member, property)
            if is_read and not name.startswith("_"):
                yield from _docstrings(member)


def _is_ours(thing: object) -> bool:
    home = getattr(getattr(thing, "fget", thing), "__module__", getattr(thing, "__name__", ""))
    return str(home).startswith("django_counters")


def messages() -> set[str]:
    """The texts in the code: of errors, checks, forms, help and output."""
    sources = (path for path in PACKAGE.rglob("*.py") if not _NO_MESSAGES & set(path.parts))
    return {text for path in sources for text in _texts(ast.parse(text_of(path)))}


def explained() -> set[str]:
    """All docstrings and comments."""
    sources = [path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts]
    return {text for path in sources for text in (*_explained(path), *_comments(path))}


def _explained(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, _WITH_DOCSTRING):
            yield ast.get_docstring(node) or ""


def _comments(path: Path) -> Iterator[str]:
    """Comments in lines that follow each other are one text."""
    tokens = tokenize.generate_tokens(io.StringIO(text_of(path)).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT]
    for _, lines in groupby(enumerate(found), lambda one: one[1].start[0] - one[0]):
        yield "\n".join(token.string.lstrip("#: ") for _, token in lines)


def _texts(tree: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    bodies = [node.body for node in nodes if isinstance(node, _WITH_DOCSTRING)]
    # A docstring is the value of the first statement.
    docstrings = {id(getattr(body[0], "value", None)) for body in bodies if body}
    for node in nodes:
        text = _text(node) if id(node) not in docstrings else ""
        if len(text.split()) >= _FEWEST_WORDS:
            yield text


def _text(node: ast.AST) -> str:
    """A text; a word stands for each value that is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "X" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
