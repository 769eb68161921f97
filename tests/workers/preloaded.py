"""The site for a server that loads it before it forks."""

from __future__ import annotations

from django.core.wsgi import get_wsgi_application
from django.db import connections

from tests.workers import site

# The connection to Redis is that of the master, on which its children must not speak.
site.count_once("views:loaded")
# Of those to the database, Django wants to be told.
connections.close_all()
wsgi = get_wsgi_application()
