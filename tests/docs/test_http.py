"""The lines of curl on the page about HTTP are sent, and answered as the page says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management.color import no_style
from django.db import connection
from django.test import Client
from django.urls import clear_url_caches

from django_counters.models import AdjustmentRequest
from django_counters.rest import targets
from example_project import urls as example
from example_project.blog import models as blog
from tests.docs.curl import Shell
from tests.docs.pages import DOCS, Step, blocks, steps

PAGE = DOCS / "how-to" / "count-over-http.md"
# Moments, and the ids of requests.
MADE = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z|(?<="request_id":")[0-9a-f-]{36}(?=")')
OF_THE_EXAMPLE = "http://127.0.0.1:8000"


def written(name: str) -> str:
    """The block that is this file."""
    (found,) = (b.text for b in blocks(PAGE, "python") if b.text.startswith(f"# {name}\n"))
    return found


def commands(*, of_the_example: bool) -> list[Step]:
    """Those of the page, or those for the example project at its end."""
    found = [list(steps(block.text)) for block in blocks(PAGE, "console")]
    (last,) = (one for one in found if one[0].command == f"SITE={OF_THE_EXAMPLE}")
    return last if of_the_example else [step for one in found if one is not last for step in one]


@pytest.fixture
def site(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The project that the page makes."""
    monkeypatch.setitem(sys.modules, "blog", ModuleType("blog"))
    monkeypatch.setitem(sys.modules, "blog.models", blog)
    monkeypatch.setattr(targets, "_exposed", {})
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    declared: dict[str, Any] = {"INSTALLED_APPS": []}
    exec(written("settings.py"), declared)
    settings.COUNTERS = declared["COUNTERS"]
    settings.REST_FRAMEWORK = declared["REST_FRAMEWORK"]
    urls = ModuleType("urls_of_the_page")
    exec(written("urls.py"), vars(urls))
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__
    yield
    clear_url_caches()


@pytest.fixture
def people(transactional_db: None) -> None:
    # The page names the first request by its number.
    with connection.cursor() as cursor:
        for sql in _restart():
            cursor.execute(sql)
    may = {"clerk": "adjust_counter", "boss": "approve_adjustment"}
    for name, code in may.items():
        user = User.objects.create_user(name, password=name, is_staff=name == "clerk")
        user.user_permissions.add(Permission.objects.get(codename=code))
    blog.Post.objects.create(pk=1, title="First", slug="first", body="…")


def _restart() -> list[str]:
    """Number the next request as the first one: there are none."""
    if connection.vendor == "mysql":
        return [f"ALTER TABLE {AdjustmentRequest._meta.db_table} AUTO_INCREMENT = 1"]
    return list(connection.ops.sequence_reset_sql(no_style(), [AdjustmentRequest]))


@pytest.mark.usefixtures("site", "people")
def test_every_line_of_curl_is_answered_as_the_page_says() -> None:
    shell, checked = Shell(Client(HTTP_HOST="127.0.0.1:8000")), 0
    for command, printed in commands(of_the_example=False):
        found = shell.run(command)
        if found is not None and printed:
            assert_printed(printed.rstrip("\n"), found, command)
            checked += 1
    assert checked >= 22


@pytest.mark.usefixtures("people")
def test_the_lines_for_the_example_work_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_exposed", {})
    example.count_for(OF_THE_EXAMPLE)
    shell, answers = Shell(Client()), []
    for command, _ in commands(of_the_example=True):
        answer = shell.run(command.replace("curl -si ", "curl -s "))
        if command.startswith("curl "):
            answers.append(json.loads(answer or ""))
    assert [one.get("value") for one in answers] == [0, 1, 1, 1, 1, 1, None, 2, 1, 0, None]


def assert_printed(printed: str, found: str, command: str) -> None:
    """The body is the same but for what is made anew; the status and shown headers are there."""
    shown, body = _parted(printed)
    answered, text = _parted(found)
    assert [line for line in shown if line not in answered] == [], command
    assert (text[: len(body) - 2] if body.endswith(" …") else text) == body.removesuffix(" …")


def _parted(printed: str) -> tuple[list[str], str]:
    text = MADE.sub("…", printed)
    if not text.startswith("HTTP/"):
        return [], text
    head, _, body = text.partition("\n\n")
    return head.splitlines(), body
