"""The command line: starts the example, and takes its pictures in Chromium."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from example_project.bootstrap import children
from example_project.bootstrap.binaries import find_chromium
from example_project.bootstrap.folders import ROOT, BootstrapError
from example_project.bootstrap.services import VARIABLES
from example_project.pictures import kept
from example_project.pictures.kept import Picture

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Seconds.
PATIENCE = 120.0
COLOURS = 128
_ADDRESS = re.compile(r"^(http://[\d.:]+)/ can be opened", re.MULTILINE)
# Enough views are lost to be seen, something was killed, and all buyers are answered.
_IS_BUSY = """
() => {
    const text = id => document.getElementById(id).textContent.replace(/\\s+/g, " ");
    return /naive: [1-9]\\d+ lost/.test(text("race"))
        && /worker was killed 1 time/.test(text("killed"))
        && /not answered yet ?0 ?0/.test(text("rush"));
}
"""


def main(argv: Sequence[str]) -> int:
    """Do what the arguments say: 0 if all pictures were taken, and 2 if there is no Chromium."""
    parser().parse_args(argv)
    path = find_chromium()
    if path is None:
        print("there is no Chromium: apt install chromium, or set COUNTERS_CHROMIUM")
        return 2
    from playwright.sync_api import sync_playwright

    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright, _example() as address:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--disable-dev-shm-usage", *sandbox]
        )
        _make_busy(browser, address)
        for picture in kept.pictures():
            _take(browser, address, picture)
        browser.close()
    kept.MARK.write_text(f"{kept.digest()}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments, which are none; needs no package."""
    return argparse.ArgumentParser(
        prog=kept.COMMAND,
        description="Starts the example, and writes its pictures to docs/images. Needs Chromium.",
    )


@contextmanager
def _example() -> Iterator[str]:
    """The address of the example, on servers of its own, which may be killed."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES.values()}
    command = [sys.executable, "-m", "example_project.pictures.site", "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        child = children.start(command, log=log, env=env, cwd=ROOT)
        try:
            children.until(lambda: bool(_said(log)) or not child.running, PATIENCE)
            if not (said := _said(log)):
                raise BootstrapError(f"the example cannot be opened:\n{log.read_text()}")
            yield said
        finally:
            child.stop(PATIENCE)


def _said(log: Path) -> str:
    found = _ADDRESS.search(log.read_text(errors="replace"))
    return found[1] if found else ""


def _make_busy(browser: Browser, address: str) -> None:
    """Press the buttons, and wait until there is something to be seen."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(address)
    page.locator("button:enabled", has_text="Kill the worker").click()
    page.get_by_role("button", name="Open it to 50 buyers").click()
    page.wait_for_function(_IS_BUSY)
    page.close()


def _take(browser: Browser, address: str, picture: Picture) -> None:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        reduced_motion="reduce",
        locale="en-US",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(address + kept.PAGES[picture.page])
    page.get_by_text("Live: read twice a second.").wait_for()
    picture.path.write_bytes(_small(page.screenshot(full_page=picture.is_whole)))
    print(f"{picture.path.relative_to(ROOT)}: {picture.path.stat().st_size:,} bytes", flush=True)
    context.close()


def _small(picture: bytes) -> bytes:
    """The same with few colours."""
    from PIL import Image

    out = BytesIO()
    with Image.open(BytesIO(picture)) as image:
        image.convert("RGB").quantize(COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()
