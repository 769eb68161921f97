"""Settings of the processes of regions: each region is an alias, and so is the way to each."""

from __future__ import annotations

from typing import Any

import dj_database_url

from tests.faults.regions.world import World
from tests.settings import *  # noqa: F403

DATABASES = {
    # Nobody counts here.
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    **{
        alias: dict[str, Any](dj_database_url.parse(url, conn_max_age=5))
        for alias, url in World.present().urls.items()
    },
}
for _declared in DATABASES.values():
    if "postgresql" in str(_declared["ENGINE"]):
        _declared.setdefault("OPTIONS", {})["connect_timeout"] = 5
# Each region has keys of its own there, by its alias.
CACHES["default"]["KEY_PREFIX"] = World.present().folder  # noqa: F405
COUNTERS_REGION = "eu"
COUNTERS = {
    "likes": {"REGIONAL": True},
    "hits": {"REGIONAL": True, "STRATEGY": "sharded"},
    "sales": {"REGIONAL": True, "STRATEGY": "ledger"},
    "views": {"REGIONAL": True, "STRATEGY": "cached", "OPTIONS": {"timeout": 5}},
}
LOGGING_CONFIG = None
