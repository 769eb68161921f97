"""``manage.py counters regions``: ages of copies, the fence, and renaming."""

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
from django_counters.contrib.regions.fencing import Fenced, fence, rename
from django_counters.contrib.regions.state import exchanged

HELP = gettext_lazy("show the ages of regions' copies, fence a restored region, or rename one")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of ``regions``."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "fence", "rename"),
        default="show",
        help=_(
            "show the ages of copies; bring a restored region up to the copies of the others; "
            "or rename this region"
        ),
    )
    parser.add_argument("former", nargs="?", default="", help=_("rename: its former name"))
    restored = parser.add_mutually_exclusive_group()
    restored.add_argument(
        "--restored",
        action="store_const",
        const=True,
        default=None,
        help=_("fence: it was restored, even if no other region has more"),
    )
    restored.add_argument(
        "--intact",
        dest="restored",
        action="store_const",
        const=False,
        help=_("fence: nothing is missing, although its database looks restored"),
    )


def handle(command: BaseCommand, using: str, *, action: str, **options: Any) -> None:
    """Show the ages of regions' copies, fence or rename this region.

    Raises:
        CommandError: an option belongs to another action, or a region is unavailable.
    """
    if action != "rename" and options["former"]:
        raise CommandError("Only rename needs a name.")
    if action != "fence" and options["restored"] is not None:
        raise CommandError("Only fence accepts --restored and --intact.")
    act: Any = {"show": _show, "fence": _fence, "rename": _rename}[action]
    try:
        act(command.stdout, using, **options)
    except RegionAway as error:
        raise CommandError(str(error)) from error


def _show(out: OutputWrapper, using: str, *, as_json: bool, **_options: Any) -> None:
    """Print the ages of the publication and of copies. Asks no other region."""
    regions()
    exchange = exchanged(using)
    if not exchange.region:
        raise CommandError(f"This region neither publishes nor copies in the database {using!r}.")
    if as_json:
        lags = exchange.seconds
        data = {
            "database": using,
            "region": exchange.region,
            "incarnation": exchange.incarnation,
            "published": lags.pop(exchange.region),
            "lags": lags,
            "strangers": exchange.strangers,
        }
        out.write(json.dumps(data))
        return
    ages = {
        name: "never" if seconds is None else f"{seconds:.0f} s ago"
        for name, seconds in exchange.seconds.items()
    }
    own, incarnation = exchange.region, exchange.incarnation
    out.write(f"{own}: this region, incarnation {incarnation}, published {ages.pop(own)}")
    for name, age in ages.items():
        out.write(f"{name}: copied {age}")
    for name in exchange.strangers:
        out.write(f"{name}: not in COUNTERS_REGIONS")


def _rename(out: OutputWrapper, using: str, *, as_json: bool, former: str, **_options: Any) -> None:
    if not former:
        raise CommandError("rename needs the region's former name.")
    entries = rename(former, using)
    data = {"database": using, "former": former, "entries": entries}
    out.write(json.dumps(data) if as_json else f"{former} has ended; {entries} entries published")


def _fence(
    out: OutputWrapper, using: str, *, as_json: bool, restored: bool | None, **_options: Any
) -> None:
    """Bring a restored region up to the copies of the others."""
    done = fence(using, restored=restored)
    data = {"database": using, **asdict(done)}
    out.write(json.dumps(data, default=str) if as_json else "\n".join(_lines(done)))


def _lines(done: Fenced) -> Iterator[str]:
    if not done.restored:
        yield "No other region has more than this one: nothing was changed."
        return
    yield f"{done.entries} entries came back, {done.amount:+} together."
    for name, heard in done.heard.items():
        since = f"{heard:%Y-%m-%d %H:%M:%S}" if heard else "the beginning"
        yield f"{name} has no counts of this region between {since} and the restore."
    if done.frozen:
        yield (
            f"{done.frozen} stocks of {done.stock} together are 0 now: "
            "adjust each to the remaining quantity."
        )
    yield f"Incarnation {done.incarnation} has begun: publish, and let increments in."
