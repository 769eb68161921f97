"""Runs the blocks of Python in the pages: ``python -m tests.docs.blocks [page …]``.

Those of one page run in their order, with one set of names, on databases of their own. After a
block each of its functions is called, with what its parameters are named after (see
tests.docs.cast), its tests are run and its settings are checked. What a comment beside a call says
of the result has to be so. A block after ``<!-- not run: reason -->`` is left out.
"""

from __future__ import annotations

import ast
import builtins
import io
import os
import secrets
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import django
from django.core.management import call_command
from django.test.utils import (
    override_settings,
    setup_databases,
    setup_test_environment,
    teardown_databases,
    teardown_test_environment,
)

from tests.docs import comments
from tests.docs.pages import PAGES, ROOT, Block, blocks, name_of

# Followed literally, by tests of their own.
FOLLOWED = ("docs/tutorial.md",)


class Watch:
    """Which functions of a page were entered, in any thread."""

    def __init__(self) -> None:
        self.entered: set[CodeType] = set()
        self._page = ""

    @contextmanager
    def over(self, page: str) -> Iterator[None]:
        """Watch until the block ends."""
        self._page = page
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def missed(self, code: CodeType) -> Iterator[CodeType]:
        """The functions in a code that were not entered."""
        for one in code.co_consts:
            if isinstance(one, CodeType):
                if not one.co_name.startswith("<") and one not in self.entered:
                    yield one
                yield from self.missed(one)

    def _seen(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename == self._page:
            self.entered.add(frame.f_code)


def problems_of(page: Path) -> list[str]:
    """What is wrong with the blocks of a page."""
    from tests.docs.cast import Cast
    from tests.docs.playing import declare, played

    name = name_of(page)
    cast, watch, found = Cast(name), Watch(), []
    with cast.at_the_end, played():
        for setting in cast.settings:
            declare(setting, cast[setting], cast)
        for block in blocks(page, "python"):
            if block.why_not is None:
                found += run(block, cast, watch)
    return found


def run(block: Block, cast: Any, watch: Watch) -> list[str]:
    """Run one block and all that it defines; what is wrong with it."""
    from tests.docs.playing import play

    try:
        code = comments.compiled(block.text, block.page, block.line)
        tree = ast.parse(block.text)
        cast.begin()
        _fill(tree, cast)
        with watch.over(block.page), redirect_stdout(io.StringIO()):
            play(block, tree, code, cast)
    except Exception as error:
        return [_told(block, error)]
    return [
        f"{block.page}:{one.co_firstlineno}: {one.co_name} is never called"
        for one in watch.missed(code)
    ]


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
    sys.path.insert(0, str(ROOT))
    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        teardown_databases(made, verbosity=0)
        teardown_test_environment()


@contextmanager
def named_as_the_pages_do() -> Iterator[None]:
    """``blog.models`` is that of the site of the tests."""
    from tests.docs.site import blog, shop, stats

    sys.modules["mysite"] = ModuleType("mysite")
    # An app has to be in a folder.
    sys.modules["mysite"].__path__ = [str(Path(__file__).with_name("site"))]
    for package in (blog, shop, stats):
        short = package.__name__.rpartition(".")[2]
        sys.modules[short] = package
        sys.modules[f"{short}.models"] = sys.modules[f"{package.__name__}.models"]
    yield


@contextmanager
def clean() -> Iterator[None]:
    """A Redis in which nothing waits yet, and afterwards no rows."""
    from django.conf import settings
    from django.contrib.contenttypes.models import ContentType

    from tests.conftest import forget_pending

    prefix = f"docs-{secrets.token_hex(6)}"
    caches = {"default": {**settings.CACHES["default"], "KEY_PREFIX": prefix}}
    with override_settings(CACHES=caches, COUNTERS={}):
        yield
    for alias in settings.DATABASES:
        forget_pending(alias, prefix)
        call_command("flush", verbosity=0, interactive=False, database=alias)
    ContentType.objects.clear_cache()


def main(arguments: list[str]) -> int:
    """Run all pages, or those that are named; 0 if nothing is wrong."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.docs.site.settings"
    django.setup()
    given = [Path(name).resolve() for name in arguments]
    found: list[str] = []
    with databases(), named_as_the_pages_do():
        for page in given or [page for page in PAGES if name_of(page) not in FOLLOWED]:
            if any(blocks(page, "python")):
                with clean():
                    found += problems_of(page)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
