"""What is done once for all processes of a crowd: each is a fork of the one that imports this.

It has no connection to any server and no thread, so that its children share nothing.
"""

from __future__ import annotations

import gc
import os
import threading

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
django.setup()

from django.db import connections  # noqa: E402

# What would be imported with the first call.
import django_counters.cached.pending  # noqa: E402
import django_counters.stores.sql.wire  # noqa: E402, F401
from tests.concurrency import adjusting, holding, rolling, victims, work  # noqa: E402, F401

assert all(each.connection is None for each in connections.all())
assert threading.active_count() == 1
# A collection would copy what they share into each of them.
gc.collect()
gc.freeze()
