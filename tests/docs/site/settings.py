"""Settings of the site: those of the suite, with databases of its own."""

from __future__ import annotations

import os

from tests.docs.pages import DOCS, blocks
from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as OF_THE_SUITE
from tests.settings import INSTALLED_APPS as APPS
from tests.settings import RUN


def _database(alias: str) -> dict[str, object]:
    name = f"test_counters_{RUN}_docs_{os.getpid()}_{alias}"
    return {**OF_THE_SUITE["default"], "TEST": {"NAME": name}}


DATABASES = {alias: _database(alias) for alias in ("default", "stats")}
OUTSIDE = [app for app in APPS if not app.startswith(("example_project.", "tests."))]
MINE = [f"tests.docs.site.{name}" for name in ("blog", "shop", "stats")]
INSTALLED_APPS = [*OUTSIDE, *MINE]
# The page about series has a view and its template.
(CHART,) = (block.text for block in blocks(DOCS / "series.md", "html"))
LOADERS = [
    ("django.template.loaders.locmem.Loader", {"shop/orders.html": CHART}),
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {
            "loaders": LOADERS,
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
ROOT_URLCONF = "tests.docs.site.urls"
