"""The least that counting needs. The runner points ``default`` at scratch databases."""

from __future__ import annotations

import dj_database_url

DATABASES = {"default": dj_database_url.config(default="postgres:///postgres")}
INSTALLED_APPS = ["django.contrib.contenttypes", "django_counters", "benchmarks"]
USE_TZ = True
SECRET_KEY = "nothing is signed here"

COUNTERS = {
    "stock": {"FLOOR": 0},
    "spread": {"STRATEGY": "sharded"},
    "combined": {"OPTIONS": {"combine": True}},
    "orders": {"STRATEGY": "ledger"},
}
