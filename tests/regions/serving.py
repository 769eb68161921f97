"""Regions of tests that answer over HTTP: a server in a thread, on the connections of the test.

Settings are of the process. While a region answers, whoever has asked waits: so it has settings of
its own for that long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from ssl import SSLContext
from threading import Thread
from types import MappingProxyType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings
from django.urls import include, path

from tests.regions.regions import DATABASES, REACHED, Region

SECRET = "a secret of tests, which is long enough"
Shared = Mapping[str, BaseDatabaseWrapper]
Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
urlpatterns = [
    path(f"{name}/", include("django_counters.contrib.regions.urls"), {"using": alias})
    for name, alias in DATABASES.items()
]


class Quiet(WSGIRequestHandler):
    """Does not write what it answers."""

    timeout = 30

    def log_message(self, *_args: Any) -> None: ...


@contextmanager
def serving(
    application: Application, *, own: bool = False, secure: SSLContext | None = None
) -> Iterator[str]:
    """Serve an application; its address. ``own``: on connections of its own."""
    server = make_server("127.0.0.1", 0, application, WSGIServer, Quiet)
    if secure is not None:
        server.socket = secure.wrap_socket(server.socket, server_side=True)
    connected: AbstractContextManager[Shared] = nullcontext({}) if own else _shared()
    with connected as shared:
        thread = Thread(target=partial(_serve, server, shared))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@contextmanager
def _shared() -> Iterator[Shared]:
    """Connections of the test, which no request closes."""
    shared = {alias: connections[alias] for alias in DATABASES.values()}
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    for one in shared.values():
        one.inc_thread_sharing()
    try:
        yield shared
    finally:
        for one in shared.values():
            one.dec_thread_sharing()
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)


def _serve(server: WSGIServer, shared: Shared) -> None:
    for alias, one in shared.items():
        connections[alias] = one
    server.serve_forever(poll_interval=0.02)
    if not shared:
        connections.close_all()


def regions_application(names: Mapping[str, str]) -> Application:
    """Both regions: each answers below its name, also where it has another one by now."""
    django = get_wsgi_application()

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        name = environ["PATH_INFO"].strip("/")
        own = names.get(name, name)
        with override_settings(COUNTERS_REGION=own, COUNTERS_REGIONS=Region(name).peers):
            return django(environ, start)

    return answer


@contextmanager
def over_http(
    around: Callable[[Application], Application] = lambda served: served,
    names: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> Iterator[str]:
    """Let all regions reach each other over HTTP, through what is around; where they are."""
    settings = {"ROOT_URLCONF": "tests.regions.serving", "COUNTERS_REGION_SECRETS": [SECRET]}
    served = around(regions_application(names))
    with override_settings(**settings), serving(served, **options) as address:
        REACHED.update({name: f"{address}{name}/" for name in DATABASES})
        try:
            yield address
        finally:
            REACHED.clear()


@pytest.fixture(name="reached", params=["database", "http"], autouse=True)
def _reached(request: pytest.FixtureRequest) -> Iterator[None]:
    """All that regions do is the same, however they reach each other."""
    if request.param == "database":
        yield
        return
    request.getfixturevalue("db")
    with over_http():
        yield
