"""How Sphinx builds these pages: ``python -m sphinx -W -b html docs docs/_build``."""

from __future__ import annotations

import sys
from pathlib import Path
from pkgutil import iter_modules

import django
from django.conf import settings

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

from django_counters import contrib  # noqa: E402

# Enough of Django for autodoc to import models; no database is opened.
if not settings.configured:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[
            "django.contrib.contenttypes",
            "django_counters",
            *(f"{contrib.__name__}.{one.name}" for one in iter_modules(contrib.__path__)),
        ],
        USE_TZ=True,
    )
    django.setup()

import django_counters  # noqa: E402

project = "django_counters"
author = "The django_counters authors"
project_copyright = author
version = release = django_counters.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "from_code",
]
# Pictures are linked to but are no pages. The reasons in "why" are for maintainers.
exclude_patterns = ["_build", "_ext", "images", "why"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_search_scorer = str(HERE / "_ext" / "scorer.js")
html_title = f"{project} {release}"
