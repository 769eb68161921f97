"""The API under gunicorn, as a project serves it, and those who ask it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from example_project.bootstrap import children, folders
from example_project.bootstrap.postgres import free_port

OPEN: dict[str, Any] = {"read": "anyone", "increment": "authenticated"}
# Patient: the machine of a test may be busy.
PATIENCE = {"timeout": float(os.environ.get("SITE_TIMEOUT", "10"))}
NAMESPACES: dict[str, dict[str, Any]] = {
    "likes": {"API": OPEN, "PER": ["hour", "day"]},
    "views": {
        **{"STRATEGY": "cached", "ON_REDIS_DOWN": "raise", "OPTIONS": PATIENCE},
        **{"API": OPEN, "PER": ["hour", "day"]},
    },
}
STARTED_WITHIN = 60
# Seconds: longer than any server may take for one request.
ANSWERED_WITHIN = 30


def application() -> Any:
    """What gunicorn serves."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.rest.server_settings")
    from django.core.wsgi import get_wsgi_application

    served = get_wsgi_application()
    _open_fields()
    _listen_to_death(Path(os.environ["SITE_FOLDER"]))
    return served


def _open_fields() -> None:
    from django_counters.rest import expose
    from tests.testapp.models import Post, Ticket

    field: Any = Ticket._meta.get_field("scans")
    vars(field)["recipe"] = field.recipe.but(timeout=PATIENCE["timeout"])
    expose(Ticket, "scans", **OPEN)
    expose(Post, "likes", **OPEN)


def _listen_to_death(folder: Path) -> None:
    """Kill this process before or after a request with a key counts, if a file says so: once."""
    from django_counters.rest.base import IdempotentRequest

    original = IdempotentRequest.do

    def do(self: IdempotentRequest, work: Any) -> Any:
        def deadly(token: Any) -> Any:
            _die(folder / "before")
            body = work(token)
            _die(folder / "after")
            return body

        return original(self, deadly)

    IdempotentRequest.do = do  # type: ignore[method-assign]


def _die(doom: Path) -> None:
    with suppress(FileNotFoundError):
        doom.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class Told(NamedTuple):
    """An answer; its status is 0 where none came."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def kind(self) -> str:
        """The last word of the type of a problem."""
        return str(self.body.get("type", "")).rpartition(":")[2]

    @property
    def replayed(self) -> bool:
        """Whether it was answered before."""
        return self.headers.get("idempotent-replayed") == "true"


class Site:
    """A server. ``doom`` kills the next process that comes to a point."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder

    def doom(self, point: str) -> None:
        """Let the next one die ``before`` or ``after`` it counts."""
        (self._folder / point).touch()

    def is_doomed(self) -> bool:
        """Whether nobody has died yet."""
        return any((self._folder / point).exists() for point in ("before", "after"))

    def log(self) -> str:
        """The end of what the server wrote."""
        return (self._folder / "log").read_text(errors="replace")[-5000:]

    def answers(self) -> bool:
        """Whether it is there. Asks no other server."""
        return self.get("/nothing").status == 404

    def get(self, path: str) -> Told:
        """Read."""
        return self._ask("GET", path, None, {})

    def value(self, key: str) -> int:
        """The exact value of a counter."""
        told = self.get(f"/api/v1/counters/{key}/exact")
        assert told.status == 200, told
        return int(told.body["value"])

    def increment(self, who: str, counter: str, by: int = 1, key: str = "") -> Told:
        """Count, as somebody with a JWT."""
        return self.post(who, f"counters/{counter}/increment", {"by": by}, key)

    def post(self, who: str, path: str, body: Any, key: str = "") -> Told:
        """Send a body, as somebody with a JWT."""
        given = {"Content-Type": "application/json", "Authorization": f"Bearer {who}"}
        if key:
            given["Idempotency-Key"] = key
        return self._ask("POST", f"/api/v1/{path}", json.dumps(body), given)

    def _ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Told:
        visitor = HTTPConnection("127.0.0.1", self._port, timeout=ANSWERED_WITHIN)
        try:
            visitor.request(method, path, body, dict(headers))
            answer = visitor.getresponse()
            text = answer.read()
        except (OSError, HTTPException):
            return Told(0, {}, {})
        finally:
            visitor.close()
        is_json = "json" in answer.headers.get_content_type()
        found = {name.lower(): value for name, value in answer.headers.items()}
        return Told(answer.status, json.loads(text) if is_json else {}, found)


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[Site]:
    """Two processes with four threads each, until the block ends."""
    port, log = free_port(), folder / "log"
    command = [
        *(sys.executable, "-m", "gunicorn", "tests.rest.site:application()"),
        *("-w", "2", "--threads", "4", "-b", f"127.0.0.1:{port}"),
        *("--timeout", "60", "--graceful-timeout", "5", "--no-control-socket", "--preload"),
    ]
    own = {
        "DJANGO_SETTINGS_MODULE": "tests.rest.server_settings",
        "SITE_FOLDER": str(folder),
        "SITE_PREFIX": "",
        **variables,
    }
    server = children.start(command, log=log, env={**os.environ, **own}, cwd=folders.ROOT)
    site = Site(port, folder)
    try:
        ready = children.until(lambda: site.answers() or not server.running, STARTED_WITHIN)
        assert ready, site.log()
        assert server.running, site.log()
        yield site
    finally:
        server.stop()
