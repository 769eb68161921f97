"""``manage.py counters publish``, ``pull`` and ``regions fence``: what regions tell each other."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from django.utils.translation import gettext as _

from django_counters.upkeep.fencing import Fenced, fence
from django_counters.upkeep.regions import publish, pull
from django_counters.upkeep.renaming import rename


def add_arguments(parser: ArgumentParser) -> None:
    """The options of ``regions``."""
    parser.add_argument(
        "action",
        choices=("fence", "rename"),
        help=_("bring a restored region up to what others know of it, or give one another name"),
    )
    parser.add_argument("former", nargs="?", default="", help=_("rename: what it was called"))
    said = parser.add_mutually_exclusive_group()
    said.add_argument(
        "--restored",
        action="store_const",
        const=True,
        default=None,
        help=_("it was restored, also where no other region knows more"),
    )
    said.add_argument(
        "--intact",
        dest="restored",
        action="store_const",
        const=False,
        help=_("nothing is missing, whatever its database looks like"),
    )


def run_publish(out: OutputWrapper, using: str, *, as_json: bool, **_options: Any) -> None:
    """Publish what has changed."""
    done = publish(using)
    busy = "; busy: somebody else publishes" if done.busy else ""
    data = {"database": using, **asdict(done)}
    out.write(json.dumps(data) if as_json else f"{done.entries} entries published{busy}")


def run_pull(out: OutputWrapper, using: str, *, as_json: bool, **_options: Any) -> None:
    """Copy what others have published.

    Raises:
        CommandError: some of them could not be asked.
    """
    found = pull(using)
    if as_json:
        regions = {name: asdict(done) for name, done in found.items()}
        out.write(json.dumps({"database": using, "regions": regions}))
    else:
        for name, done in found.items():
            busy = "; busy: somebody else copies" if done.busy else ""
            moved = [f"; {done.received} received"] if done.received else []
            moved += [f"; {done.sent} sent"] if done.sent else []
            out.write(f"{name}: {done.entries} entries copied{''.join(moved)}{busy}")
    problems = [f"{name}: {done.problem}" for name, done in found.items() if done.problem]
    if problems:
        raise CommandError("; ".join(problems))


def run(out: OutputWrapper, using: str, *, action: str, **options: Any) -> None:
    """Look after this region."""
    act = _rename if action == "rename" else _fence
    act(out, using, **options)


def _rename(out: OutputWrapper, using: str, *, as_json: bool, former: str, **_options: Any) -> None:
    if not former:
        raise CommandError("rename takes what the region was called.")
    entries = rename(former, using)
    data = {"database": using, "former": former, "entries": entries}
    out.write(json.dumps(data) if as_json else f"{former} has ended; {entries} entries published")


def _fence(
    out: OutputWrapper, using: str, *, as_json: bool, restored: bool | None, **_options: Any
) -> None:
    done = fence(using, restored=restored)
    data = {"database": using, **asdict(done)}
    out.write(json.dumps(data, default=str) if as_json else "\n".join(_lines(done)))


def _lines(done: Fenced) -> Iterator[str]:
    if not done.restored:
        yield "No other region knows more than this one: nothing was changed."
        return
    yield f"{done.entries} entries came back, {done.amount:+} together."
    for name, heard in done.heard.items():
        since = f"{heard:%Y-%m-%d %H:%M:%S}" if heard else "the beginning"
        yield f"{name} has nothing that was counted here between {since} and the restore."
    if done.frozen:
        yield (
            f"{done.frozen} stocks are 0 now, which had {done.stock} together: "
            "adjust each to what is left of it."
        )
    yield f"Incarnation {done.incarnation} has begun: publish, and let increments in."
