"""What the workers of the benchmarks' server run."""

from __future__ import annotations

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler


def application(database: str, prefix: str) -> WSGIHandler:
    """Serve ``benchmarks.site`` from a database of the server that the settings name.

    ``prefix``: what all keys in Redis begin with. Connections last, as they do where speed matters.
    """
    settings.CACHES["default"]["KEY_PREFIX"] = prefix
    settings.DATABASES["default"] |= {"NAME": database, "CONN_MAX_AGE": None}
    django.setup(set_prefix=False)
    return WSGIHandler()
