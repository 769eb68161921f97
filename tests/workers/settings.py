"""Settings of the processes that a test starts: its database, and its prefix in Redis."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403
from tests.settings import CACHES, DATABASES

DATABASES["default"]["NAME"] = os.environ["WORKERS_DATABASE"]
CACHES["default"]["KEY_PREFIX"] = os.environ["WORKERS_PREFIX"]
# No more than they need: a third of the time in which each of them starts.
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django_counters",
    "django_counters.contrib.buffers",
]
COUNTERS: dict[str, dict[str, object]] = {
    "views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
    # It lands when a process ends, and by the thread.
    "hits": {"BUFFER": {"seconds": 3600}},
    "soon": {"BUFFER": {"seconds": 0.05}},
}
if os.environ.get("WORKERS_BUFFER"):
    COUNTERS["views"] = {"BUFFER": {"seconds": 3600}}
if os.environ.get("WORKERS_DIRECTORY"):
    COUNTERS["hits"] = {
        "STRATEGY": os.environ["WORKERS_STRATEGY"],
        "BUFFER": {"seconds": 0.05, "directory": os.environ["WORKERS_DIRECTORY"]},
    }
if os.environ.get("WORKERS_TOPIC"):
    INSTALLED_APPS.append("django_counters.contrib.streams")
    location, topic = os.environ["WORKERS_TOPIC"].split()
    COUNTERS_STREAMS = {"hits": {"BACKEND": "kafka", "LOCATION": location, "TOPIC": topic}}
    COUNTERS["hits"] = {"BUFFER": {"seconds": 3600, "to": "hits"}}
if os.environ.get("WORKERS_APP"):
    INSTALLED_APPS.append("tests.workers.apps.HitsConfig")
    COUNTERS = {}
ROOT_URLCONF = "tests.workers.site"
