"""The command line of the regions: a page that shows them, or a check without one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from example_project.bootstrap import children
from example_project.stopping import Stop

if TYPE_CHECKING:
    from example_project.regions.world import World

CUT = "us"
SECONDS = 12.0  # of a check
PATIENCE = 60.0
EPILOG = """
Three regions count the same visits, each in a database of its own, on the server of DATABASE_URL
where that is exported, otherwise on a private one. The databases are made and dropped.
"""


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say.

    Returns:
        0 if all regions agree in the end and have what was counted; 1 if not; 2 if there is no
        PostgreSQL.
    """
    options = parser().parse_args(argv)
    _configure()
    from django.db import connection

    from example_project.regions.databases import databases
    from example_project.regions.settings import NAMES
    from example_project.regions.world import world

    if connection.vendor != "postgresql":
        print("needs PostgreSQL", file=sys.stderr)
        return 2
    with databases(NAMES) as places, world(places) as regions:
        ok = _checked(regions, options) if options.check else _shown(regions, options)
        return 0 if _converged(regions) and ok else 1


def parser() -> argparse.ArgumentParser:
    """The arguments; needs no Django."""
    main = argparse.ArgumentParser(
        prog="python3 -m example_project.regions",
        description="Regions that count while they cannot talk, and agree when they can.",
        epilog=EPILOG,
    )
    add = main.add_argument
    add("--seconds", type=float, metavar="N", help="stop after N seconds (else at Ctrl-C)")
    add("--check", action="store_true", help="no page: cut and heal once; 12 s unless told")
    add("--port", type=int, default=8000, metavar="N", help="first port to try (8000)")
    return main


def _shown(regions: World, options: argparse.Namespace) -> bool:
    """Serve the page until it is time to stop."""
    from django.core.wsgi import get_wsgi_application

    from example_project.regions import pages
    from example_project.server import HOST, serving

    pages.show(regions)
    stop = Stop()
    with stop.listening(), serving(get_wsgi_application(), options.port) as port:
        print(f"http://{HOST}:{port}/ shows the regions. Ctrl-C ends, and checks all.", flush=True)
        seconds = options.seconds or float("inf")
        children.until(lambda: stop.asked or bool(regions.dead), seconds)
    return True


def _checked(regions: World, options: argparse.Namespace) -> bool:
    """Cut a line and heal it, while all count; whether the cut was seen."""
    began, seconds = time.monotonic(), options.seconds or SECONDS

    def until(share: float, also: Callable[[], bool] = lambda: True) -> bool:
        least = began + seconds * share
        return _watched(regions, lambda: time.monotonic() >= least and also(), seconds + PATIENCE)

    until(1 / 4, lambda: all(state.counted for state in regions.states().values()))
    regions.set_line(CUT, whole=False)
    seen = until(2 / 3, lambda: _is_alone(regions))
    # It may have come true within a second of the last line.
    print(_line(regions), flush=True)
    regions.set_line(CUT, whole=True)
    until(1)
    return seen


def _is_alone(regions: World) -> bool:
    """Whether nothing comes from the region that is cut, nor to it, and all go on counting."""
    from example_project.regions.world import behind

    states = regions.states()
    return all(behind(states).values()) and all(state.problem for state in states.values())


def _converged(regions: World) -> bool:
    """Let nobody count any more, and wait until all agree."""
    from example_project.regions.world import is_exact

    for name in regions.cut:
        regions.set_line(name, whole=True)
    if not regions.dead:
        regions.set_counting(False)
    ok = _watched(regions, lambda: is_exact(regions.states()), PATIENCE)
    states = regions.states()
    counted = sum(state.counted for state in states.values())
    told = "all agree, and have it once" if ok else f"FAILED: {states}, ended: {regions.dead}"
    print(f"{counted:,} visits were counted in {len(states)} regions: {told}.", flush=True)
    return ok


def _watched(regions: World, condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition, and say each second how far all are; whether it came true."""
    began, line = time.monotonic(), 0

    def look() -> bool:
        nonlocal line
        if time.monotonic() >= began + line:
            line += 1
            print(_line(regions), flush=True)
        return bool(regions.dead) or condition()

    return children.until(look, seconds) and not regions.dead


def _line(regions: World) -> str:
    from example_project.regions.world import verdict

    states = regions.states()
    sees = " · ".join(f"{name} sees {state.total:,}" for name, state in states.items())
    cut = "".join(f"; {name} is cut off" for name in sorted(regions.cut))
    return f"{sees}: {verdict(states)}{cut}"


def _configure() -> None:
    import django

    # Not setdefault: somebody's own project may be exported.
    os.environ["DJANGO_SETTINGS_MODULE"] = "example_project.regions.settings"
    django.setup()
