"""Settings of one region, or of the process that shows all of them.

``DJC_REGION`` says which region it is, and ``DJC_DATABASES`` where its own database is, and those
of the others.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import dj_database_url
import django

from example_project.csp import SITE

REGION, PLACES = "DJC_REGION", "DJC_DATABASES"
NAMES = ("eu", "us", "ap")
KEY = "visits:front"


def _database(place: dict[str, Any]) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": None, **place}


if PLACES in os.environ:
    DATABASES = {alias: _database(place) for alias, place in json.loads(os.environ[PLACES]).items()}
else:
    DATABASES = {"default": dict(dj_database_url.parse(os.environ["DATABASE_URL"]))}

if os.environ.get(REGION):
    COUNTERS_REGION = os.environ[REGION]
    COUNTERS_REGIONS = {name: name for name in DATABASES if name != "default"}
    COUNTERS = {"visits": {"REGIONAL": True}}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "django_counters",
    "django_counters.contrib.regions",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware"
    if django.VERSION >= (6, 0)
    else "example_project.csp.policy",
]
SECURE_CSP = SITE
_HERE = Path(__file__).resolve().parents[1]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_HERE / "templates"],
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]
ROOT_URLCONF = "example_project.regions.pages"
STATIC_URL = "static/"
STATICFILES_DIRS = [_HERE / "static"]
# Signs nothing that outlives a demonstration on the loopback interface.
SECRET_KEY = secrets.token_hex(32)
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
USE_TZ = True
