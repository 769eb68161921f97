"""Settings of the processes of a server: its database, its Redis, and what it opens."""

from __future__ import annotations

import os

from tests.rest.site import NAMESPACES
from tests.settings import *  # noqa: F403
from tests.settings import CACHES, DATABASES, REST_FRAMEWORK

if "SITE_DATABASE" in os.environ:
    DATABASES["default"]["NAME"] = os.environ["SITE_DATABASE"]
CACHES["default"]["KEY_PREFIX"] = os.environ["SITE_PREFIX"]
if "SITE_PROXIES" in os.environ:
    REST_FRAMEWORK["NUM_PROXIES"] = int(os.environ["SITE_PROXIES"])
if os.environ.get("SITE_LIMITS") == "database":
    CACHES["redis"] = dict(CACHES["default"])
    CACHES["default"] = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
COUNTERS = {name: dict(options) for name, options in NAMESPACES.items()}
for options in COUNTERS.values():
    if options.get("STRATEGY") == "cached":
        options["CACHE"] = os.environ.get("SITE_CACHE", "default")
ROOT_URLCONF = "tests.rest.urls"
LOGGING_CONFIG = None
