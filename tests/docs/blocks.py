"""Runs the blocks of Python in the pages: ``python -m tests.docs.blocks [page …]``.

Those of one page run in their order, with one set of names, on databases of their own. After a
block each of its functions is called, with what its parameters are named after (see
tests.docs.cast), its tests are run and its settings are checked. What a comment beside a call says
of the result has to be so. A block after ``<!-- not run: reason -->`` is left out.
"""

from __future__ import annotations

import ast
import builtins
import gc
import io
import os
import secrets
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import django
from django.core.management import call_command
from django.core.management.color import no_style
from django.test.utils import (
    override_settings,
    setup_databases,
    setup_test_environment,
    teardown_databases,
)

from tests.docs import comments
from tests.docs.pages import PAGES, ROOT, Block, blocks, name_of

# Followed literally, by tests of their own.
FOLLOWED = ("docs/tutorial.md",)
# What each page would import.
SHARED = ("tests.conftest", "tests.docs.cast", "tests.docs.playing")


def problems_of(page: Path) -> list[str]:
    """What is wrong with the blocks of a page."""
    from tests.docs.cast import Cast
    from tests.docs.playing import begin

    cast = Cast(name_of(page))
    begin(cast)
    found = (run(block, cast) for block in blocks(page, "python") if block.why_not is None)
    return [problem for problem in found if problem]


def run(block: Block, cast: Any) -> str:
    """Run one block and all that it defines; what is wrong with it."""
    from tests.docs.playing import play

    try:
        code = comments.compiled(block.text, block.page, block.line)
        tree = ast.parse(block.text)
        cast.begin()
        _fill(tree, cast)
        with redirect_stdout(io.StringIO()):
            play(block, tree, code, cast)
    except Exception as error:
        return _told(block, error)
    return ""


def _fill(tree: ast.Module, cast: Any) -> None:
    """The names that the block uses, and neither it nor an earlier one explains."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    # `x += 1` stores, and has to have a value before.
    used |= {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    for name in used - cast.defined - vars(builtins).keys():
        if cast.knows(name):
            cast.names[name] = cast[name]


def _told(block: Block, error: Exception) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == block.page]
    line = frames[-1].lineno if frames else block.line
    return f"{block.page}:{line}: {type(error).__name__}: {error}"


@contextmanager
def databases() -> Iterator[None]:
    """Empty ones, for all pages."""
    from django.db import connections

    sys.path.insert(0, str(ROOT))
    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    for alias in connections:
        _flush(alias)
    # Who is forked has connections of its own, and shares what is in memory.
    connections.close_all()
    for module in SHARED:
        import_module(module)
    gc.freeze()
    try:
        yield
    finally:
        teardown_databases(made, verbosity=0)


def name_as_the_pages_do() -> None:
    """``blog.models`` is that of the site of the tests."""
    from tests.docs.site import blog, shop, stats

    sys.modules["mysite"] = ModuleType("mysite")
    # An app has to be in a folder.
    sys.modules["mysite"].__path__ = [str(Path(__file__).with_name("site"))]
    for package in (blog, shop, stats):
        short = package.__name__.rpartition(".")[2]
        sys.modules[short] = package
        sys.modules[f"{short}.models"] = sys.modules[f"{package.__name__}.models"]


def wrong_apart(page: Path) -> bool:
    """Whether something is wrong with a page, which is printed: found by a process of its own."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1] != 0
    code = 2
    try:
        code = _printed(page)
        sys.stdout.flush()
    except BaseException:
        # Nobody else tells of it: this process ends here.
        traceback.print_exc()
    finally:
        os._exit(code)


def _printed(page: Path) -> int:
    """With a Redis in which nothing waits yet; afterwards there are no rows."""
    from django.conf import settings
    from django.db import connections

    from tests.conftest import forget_pending

    prefix = f"docs-{secrets.token_hex(6)}"
    caches = {"default": {**settings.CACHES["default"], "KEY_PREFIX": prefix}}
    override_settings(CACHES=caches, COUNTERS={}).enable()
    found = problems_of(page)
    for alias in settings.DATABASES:
        # Without a connection the page has asked nothing of this database; but at the end of a
        # request the one that most pages use is closed.
        if connections[alias].connection is not None or alias == "default":
            forget_pending(alias, prefix)
            _flush(alias)
    print("\n".join(found))
    return 1 if found else 0


def _flush(alias: str) -> None:
    """What an empty database is like is looked at the first time, and known to all pages.

    Ids begin anew: the blocks of a page may take the id of one record for that of another.
    """
    from django.apps import apps
    from django.db import connections

    from tests.testapp.management.commands.flush import Command

    call_command(Command(), verbosity=0, interactive=False, database=alias)
    with connections[alias].cursor() as cursor:
        for statement in connections[alias].ops.sequence_reset_sql(no_style(), apps.get_models()):
            cursor.execute(statement)


def main(arguments: list[str]) -> int:
    """Run all pages, or those that are named; 0 if nothing is wrong."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.docs.site.settings"
    django.setup()
    given = [Path(name).resolve() for name in arguments]
    pages = given or [page for page in PAGES if name_of(page) not in FOLLOWED]
    name_as_the_pages_do()
    with databases():
        wrong = [wrong_apart(page) for page in pages if any(blocks(page, "python"))]
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
