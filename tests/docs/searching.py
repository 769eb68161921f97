"""Asks the search of the built pages as users do: ``python -m tests.docs.searching FOLDER``.

Each answer has to be among the first three. The search is the one of Sphinx, in Chromium.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from example_project.bootstrap.binaries import find_chromium

FIRST = 3
SECONDS = 120
SCRIPTS = (
    "_static/documentation_options.js",
    "_static/doctools.js",
    "_static/sphinx_highlight.js",
    "_static/language_data.js",
    "_static/searchtools.js",
    "searchindex.js",
)
ASKING = """<!doctype html><html data-content_root="./"><body>
<p id="search-progress"></p>{scripts}
<script>
const found = {queries}.map((query) =>
  Search._performSearch(...Search._parseQuery(query)).reverse().map((one) => one[0] + one[2]));
document.body.textContent = JSON.stringify(found);
</script></body></html>"""


class Question(NamedTuple):
    """A question as people type it, and the page that answers it."""

    typed: str
    answer: str


QUESTIONS = [
    Question(typed, answer)
    for answer, several in {
        "explanation/choose": ("strategy for likes", "likes strategy", "which strategy"),
        "uniques": ("unique visitors", "how many unique visitors"),
        "series": ("views per day", "count per hour", "count over time"),
        "top": ("top 10 this week", "top ten", "leaderboard"),
        "limits": ("rate limits", "rate limit", "limit requests"),
        "adjustments": ("reset", "reset a counter"),
        "how-to/exact": ("delete", "delete a counter"),
        "questions": ("deleted and made again", "record deleted and made again", "tenants"),
        "how-to/adopt-a-column": ("IntegerField", "from an IntegerField"),
        "reference/databases": ("MySQL", "MariaDB"),
        "cached": ("Redis down", "what happens when Redis is down"),
        "how-to/retries": ("exactly once from Celery", "celery exactly once"),
        "how-to/audit": ("restore a backup",),
        "regions": ("several regions", "regions"),
        "reference/upgrades": ("upgrade", "upgrade to a new version"),
        "how-to/celery-beat": ("django-celery-beat", "celery beat"),
        "how-to/trace": ("OpenTelemetry", "Sentry", "tracing"),
        "explanation/comparison": ("Redis INCR", "why not Redis INCR alone"),
    }.items()
    for typed in several
]


def ask(chromium: str, folder: Path, typed: Sequence[str]) -> list[list[str]]:
    """What the search of built pages finds for each text, the best first: ``page#anchor``."""
    scripts = "".join(f'<script src="{folder.resolve() / one}"></script>' for one in SCRIPTS)
    with tempfile.TemporaryDirectory() as home:
        page = Path(home) / "asking.html"
        page.write_text(ASKING.format(scripts=scripts, queries=json.dumps(list(typed))))
        found = re.search("<body>(.*)</body>", _shown(chromium, page, home), re.DOTALL)
    assert found
    answers: list[list[str]] = json.loads(html.unescape(found[1]))
    return answers


def _shown(chromium: str, page: Path, home: str) -> str:
    """A page after its scripts have run."""
    # As root it has no sandbox, and in a container little shared memory.
    flags = ["--headless", "--disable-dev-shm-usage", "--disable-gpu", f"--user-data-dir={home}"]
    flags += ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [chromium, *flags, "--dump-dom", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    return run.stdout


def main(folder: Path) -> int:
    """Print each question and the place of its answer. Returns how many are not found."""
    chromium = find_chromium()
    if chromium is None:
        print("nothing is asked: apt install chromium, or set COUNTERS_CHROMIUM")
        return 0
    found = ask(chromium, folder, [one.typed for one in QUESTIONS])
    places = [_place(*each) for each in zip(QUESTIONS, found, strict=True)]
    for question, place, pages in zip(QUESTIONS, places, found, strict=True):
        instead = "" if place else f"   first are {', '.join(pages[:FIRST])}"
        print(f"{place or '-':>2}  {question.typed:<36} {question.answer}{instead}")
    return places.count(None)


def _place(question: Question, found: Sequence[str]) -> int | None:
    """The place of an answer; None if it is not among the first."""
    pages = [one.partition("#")[0] for one in found[:FIRST]]
    return pages.index(question.answer) + 1 if question.answer in pages else None


if __name__ == "__main__":
    missed = main(Path(sys.argv[1]))
    sys.exit(f"{missed} answers are not among the first {FIRST}" if missed else 0)
