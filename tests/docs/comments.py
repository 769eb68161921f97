"""What a comment beside a call says of its result: ``# → 4``, ``# 42, 40, -2``."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

SHOWN = "shown_by_the_comment"


def compiled(text: str, name: str, line: int) -> Any:
    """The code of a block. Each value with a comment goes to the function `SHOWN` of its globals.

    Args:
        text: the block.
        name: the page.
        line: where the block begins there.
    """
    tree = ast.parse(text, name)
    tree = ast.fix_missing_locations(_Shown(_comments(text)).visit(tree))
    ast.increment_lineno(tree, line - 1)
    return compile(tree, name, "exec")


def check(value: object, comment: str) -> object:
    """The value; raises AssertionError if the comment is another one. Words are left alone."""
    try:
        literal = ast.literal_eval(comment.removeprefix("→ "))
    except (SyntaxError, ValueError):
        return value
    assert value == literal, f"{value!r}, and the comment says {literal!r}"
    return value


def _comments(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


class _Shown(ast.NodeTransformer):
    def __init__(self, comments: dict[int, str]) -> None:
        self._comments = comments

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        said = self._comments.get(node.end_lineno or 0)
        if said and not isinstance(node.value, ast.Constant):
            name = ast.Name(SHOWN, ast.Load())
            node.value = ast.Call(name, [node.value, ast.Constant(said)], [])
            ast.copy_location(node.value, node)
        return node
