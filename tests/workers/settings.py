"""Settings of the processes that a test starts: its database, and its prefix in Redis."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403
from tests.settings import CACHES, DATABASES

DATABASES["default"]["NAME"] = os.environ["WORKERS_DATABASE"]
CACHES["default"]["KEY_PREFIX"] = os.environ["WORKERS_PREFIX"]
COUNTERS = {"views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}}
ROOT_URLCONF = "tests.workers.site"
