"""Settings of the processes of a server: its database, its Redis, and what it opens."""

from __future__ import annotations

import os

from tests.rest.site import NAMESPACES
from tests.settings import *  # noqa: F403
from tests.settings import CACHES, DATABASES

if "SITE_DATABASE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["SITE_DATABASE"]
CACHES["default"]["KEY_PREFIX"] = os.environ["SITE_PREFIX"]
COUNTERS = NAMESPACES
ROOT_URLCONF = "tests.rest.urls"
LOGGING_CONFIG = None
