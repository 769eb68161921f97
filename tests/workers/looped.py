"""The site for a server with an event loop."""

from __future__ import annotations

from django.core.asgi import get_asgi_application

from tests.workers import site

application = get_asgi_application()
assert site.urlpatterns
