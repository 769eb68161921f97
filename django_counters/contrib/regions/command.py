"""``manage.py counters regions``: what regions know of each other."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_counters.contrib.regions.declared import regions
from django_counters.contrib.regions.errors import RegionAway
from django_counters.contrib.regions.fencing import Fenced, fence
from django_counters.contrib.regions.renaming import rename
from django_counters.contrib.regions.state import Exchange, exchanged

HELP = gettext_lazy("say how old copies of regions are, or look after a restored one")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of ``regions``."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "fence", "rename"),
        default="show",
        help=_(
            "say how old what was copied is; bring a restored region up to what others know; "
            "or give one another name"
        ),
    )
    parser.add_argument("former", nargs="?", default="", help=_("rename: its former name"))
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
        help=_("nothing is missing, although its database looks restored"),
    )


def handle(command: BaseCommand, using: str, *, action: str, **options: Any) -> None:
    """Show how regions are, or look after this one.

    Raises:
        CommandError: an option is for something else, or a region can't be asked.
    """
    if action != "rename" and options["former"]:
        raise CommandError("A name is for rename alone.")
    if action != "fence" and options["restored"] is not None:
        raise CommandError("--restored and --intact are for fence alone.")
    act: Any = {"show": _show, "fence": _fence, "rename": _rename}[action]
    try:
        act(command.stdout, using, **options)
    except RegionAway as error:
        raise CommandError(str(error)) from error


def _show(out: OutputWrapper, using: str, *, as_json: bool, **_options: Any) -> None:
    """Say how old what was published and copied is. Asks no other region."""
    regions()
    found = exchanged(using)
    if not found.region:
        raise CommandError(f"This region neither publishes nor copies in the database {using!r}.")
    if as_json:
        out.write(json.dumps({"database": using, **_as_data(found)}))
        return
    ago = {
        name: "never" if seconds is None else f"{seconds:.0f} s ago"
        for name, seconds in found.seconds.items()
    }
    own, incarnation = found.region, found.incarnation
    out.write(f"{own}: this region, incarnation {incarnation}, published {ago.pop(own)}")
    for name, told in ago.items():
        out.write(f"{name}: copied {told}")
    for name in found.strangers:
        out.write(f"{name}: not in COUNTERS_REGIONS")


def _as_data(found: Exchange) -> dict[str, Any]:
    """The same for programs; ages in seconds."""
    lags = found.seconds
    return {
        "region": found.region,
        "incarnation": found.incarnation,
        "published": lags.pop(found.region),
        "lags": lags,
        "strangers": found.strangers,
    }


def _rename(out: OutputWrapper, using: str, *, as_json: bool, former: str, **_options: Any) -> None:
    if not former:
        raise CommandError("rename takes what the region was called.")
    entries = rename(former, using)
    data = {"database": using, "former": former, "entries": entries}
    out.write(json.dumps(data) if as_json else f"{former} has ended; {entries} entries published")


def _fence(
    out: OutputWrapper, using: str, *, as_json: bool, restored: bool | None, **_options: Any
) -> None:
    """Bring a restored region up to what others know of it."""
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
