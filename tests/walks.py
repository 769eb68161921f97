"""Prints the files that a call walks through: ``python -m tests.walks``.

Each walk is recorded in a plain project with a database of its own, once everything is warm. It is
the chain of files from the call to the statement that counts, each with the function that it enters
there. Then come the files that are asked for something on the way, and all statements of the call.
It uses the servers of DATABASE_URL and REDIS_URL; without them it starts some. ``--page`` writes
the walks into the page about them, and ``--json`` prints them for programs.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from textwrap import fill
from types import CodeType, FrameType
from typing import Any, NamedTuple

import dj_database_url
import redis
from django.conf import settings

from example_project.bootstrap.services import ensure

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "how-it-is-built.md"
# Where a walk stands in its page.
PLACE = re.compile(r"(?<=<!-- walk: )(\w+) -->\n.*?(?=\n<!-- end -->)", re.DOTALL)
PACKAGE = f"{ROOT / 'django_counters'}{os.sep}"
APPS = ("django.contrib.auth", "django.contrib.contenttypes", "django_counters")
CONTRIB: tuple[str, ...] = ("likes",)
SAVEPOINT = re.compile(r"[\"`]s\d+_x\d+[\"`]")
# They send a statement.
SENDERS = ("Kept.run", "Wire.run")
# What is made at the first use is there before a walk begins.
BEFORE = 5
# How many files a reader has to open, and how many are asked on the way. No number may grow: a
# change that lowers one lowers it here.
MOST = {"exact": (6, 4), "field": (6, 8), "like": (8, 15), "flush": (7, 24)}


class Step(NamedTuple):
    """A file of a walk: the function that it enters there, its line, and its first sentence."""

    path: str
    line: int
    function: str

    @property
    def sentence(self) -> str:
        """The first line of the function's docstring, as a page shows it."""
        module = import_module(self.path.removesuffix(".py").replace("/", "."))
        function = reduce(getattr, self.function.split("."), module)
        return (function.__doc__ or "").partition("\n")[0].replace("``", "`")


class Walk(NamedTuple):
    """The way of one call to the statement that counts; the other files; and all statements."""

    title: str
    steps: tuple[Step, ...]
    others: tuple[str, ...]
    statements: tuple[str, ...]

    def __str__(self) -> str:
        places = [f"{step.path}:{step.line}" for step in self.steps]
        wide = max(map(len, places)) + 2
        steps = [
            f"{number}. {place:<{wide}}{step.function}"
            for number, (place, step) in enumerate(zip(places, self.steps, strict=True), 1)
        ]
        others = f"Asked on the way, {len(self.others)} files: {', '.join(self.others)}"
        return "\n".join([self.title, *steps, others, *self.statements])

    @property
    def shown(self) -> str:
        """The walk as its page shows it: without lines, and with its last transaction alone."""
        begins = [text.startswith("SET TRANSACTION") for text in self.statements]
        last = len(begins) - begins[::-1].index(True) if True in begins else 0
        rows = [
            f"| {number} | `{step.path.removeprefix('django_counters/')}` | `{step.function}` | "
            f"{step.sentence} |"
            for number, step in enumerate(self.steps, 1)
        ]
        head = "| | File | Function | |\n| --- | --- | --- | --- |"
        sql = "\n".join(fill(text, 100, break_long_words=False) for text in self.statements[last:])
        return "\n".join([head, *rows, "", "```text", sql, "```"])


def walk(title: str, work: Callable[[], object], before: Callable[[], object] = lambda: 0) -> Walk:
    """Record one call of ``work``. Each time ``before`` comes before it."""
    from django.db import connection

    for _ in range(BEFORE):
        before()
        work()
    entered: dict[str, None] = {}
    chains: list[list[CodeType]] = []

    def hear(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            entered[frame.f_code.co_filename] = None
            if frame.f_code.co_qualname in SENDERS:
                chains.append(list(_chain(frame))[::-1])

    before()
    sys.setprofile(hear)
    try:
        work()
    finally:
        sys.setprofile(None)
    statements: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append(SAVEPOINT.sub("s", " ".join(str(sql).split())))
        return execute(sql, params, many, context)

    before()
    # Not in the same call: where nobody listens, a statement can take a shorter way.
    with connection.execute_wrapper(note):
        work()
    # The statement that counts is the one that is furthest inside.
    codes = max(({code.co_filename: code for code in chain[::-1]} for chain in chains), key=len)
    steps = [
        Step(_within(name), code.co_firstlineno, code.co_qualname)
        for name, code in reversed(codes.items())
    ]
    others = tuple(_within(name) for name in entered if name not in codes)
    return Walk(title, tuple(steps), others, tuple(statements))


def _chain(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            yield frame.f_code
        frame = frame.f_back


def _within(name: str) -> str:
    return Path(name).relative_to(ROOT).as_posix()


def _exact() -> Walk:
    from django_counters.models import Counter

    return walk('Counter.objects.increment("a")', lambda: Counter.objects.increment("a"))


@cache
def _post() -> Any:
    from django.db import connection, models

    from django_counters import CounterField

    class Post(models.Model):
        views = CounterField()
        likes = CounterField(once=True)

        class Meta:
            app_label = "blog"

    with connection.schema_editor() as editor:
        editor.create_model(Post)
    return Post._base_manager.create()


def _field() -> Walk:
    post = _post()
    # The attribute is a part of the call.
    return walk("post.views.increment()", lambda: post.views.increment())  # noqa: PLW0108


def _like() -> Walk:
    from django.contrib.auth.models import User

    post = _post()
    users = [User.objects.create(username=f"user{number}") for number in range(BEFORE + 2)]
    return walk("post.likes.increment(who=user)", lambda: post.likes.increment(who=users.pop()))


def _flush() -> Walk:
    from django_counters.cached.flush import flush
    from django_counters.models import Counter

    title = 'flush(), after Counter.objects.increment("views:a") of a cached namespace'
    return walk(title, flush, lambda: Counter.objects.increment("views:a"))


WALKS: Mapping[str, Callable[[], Walk]] = {
    "exact": _exact,
    "field": _field,
    "like": _like,
    "flush": _flush,
}


def walks() -> dict[str, Walk]:
    """Record all walks that the database offers."""
    from django.db import connection

    return {
        name: record()
        for name, record in WALKS.items()
        if name != "like" or connection.vendor != "mysql"
    }


@contextmanager
def project() -> Iterator[None]:
    """Make this process a plain project with a database and a part of a Redis of its own."""
    import django
    from django.core.management import call_command
    from django.db import connection

    database: dict[str, Any] = dict(dj_database_url.parse(os.environ["DATABASE_URL"]))
    home, name = database["NAME"], f"counters_walks_{os.getpid()}_{secrets.token_hex(4)}"
    cache = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ["REDIS_URL"],
        "KEY_PREFIX": name,
    }
    settings.configure(
        INSTALLED_APPS=[*APPS, *(f"django_counters.contrib.{name}" for name in CONTRIB)],
        DATABASES={"default": database},
        CACHES={"default": cache},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        COUNTERS={"views": {"STRATEGY": "cached"}},
    )
    django.setup()

    def run(sql: str) -> None:
        connection.close()
        connection.settings_dict["NAME"] = home
        with connection.cursor() as cursor:
            cursor.execute(f"{sql} {connection.ops.quote_name(name)}")
        connection.close()
        connection.settings_dict["NAME"] = name

    own = connection.vendor != "sqlite"
    if own:
        run("CREATE DATABASE")
    try:
        call_command("migrate", verbosity=0)
        yield
    finally:
        if own:
            run("DROP DATABASE")
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            for key in client.scan_iter(f"*{name}*", 1000):
                client.delete(key)


def written(page: str, shown: Mapping[str, str]) -> str:
    """Return the text of the page with these walks."""
    return PLACE.sub(lambda place: f"{place[1]} -->\n{shown[place[1]]}", page)


def main() -> None:
    """Print the walks, or write them into their page."""
    ensure()
    with project():
        recorded = walks()
    shown = {name: walk.shown for name, walk in recorded.items()}
    if "--page" in sys.argv:
        PAGE.write_text(written(PAGE.read_text("utf-8"), shown), "utf-8")
    elif "--json" in sys.argv:
        print(json.dumps([recorded, shown]))
    else:
        print("\n\n".join(map(str, recorded.values())))


if __name__ == "__main__":
    main()
