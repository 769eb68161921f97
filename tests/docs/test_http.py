"""The page about HTTP is followed literally; its tables are compared with the code."""

from __future__ import annotations

import json
import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import URLPattern, clear_url_caches

import django_counters
from django_counters import access
from django_counters.rest import exposed
from django_counters.rest.bodies import MOST_ITEMS
from django_counters.rest.describing import PROBLEMS
from django_counters.rest.parsing import LARGEST
from django_counters.rest.problems import _KINDS, _TYPES
from django_counters.rest.throttling import TokenBucketThrottle
from django_counters.rest.urls import urlpatterns
from example_project import urls as example
from example_project.blog import models as blog
from tests.docs.curl import Shell, steps
from tests.docs.test_docs import DOCS, load_tables, text_of

PACKAGE = Path(django_counters.__file__).resolve().parent
PAGE = text_of(DOCS / "how-to" / "count-over-http.md")
REFERENCE = text_of(DOCS / "reference" / "http.md")
FILES = re.compile(r"^```python\n# (settings|urls)\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
JSON = "application/json"
EXAMPLE = "## Try it on the example project"
PROBLEM = re.compile(r"^\| (\d{3}) \| (`.*?`) \| (.*?) \|", re.MULTILINE)


@pytest.fixture
def site(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The project that the page makes."""
    written = dict(FILES.findall(PAGE))
    monkeypatch.setitem(sys.modules, "blog", ModuleType("blog"))
    monkeypatch.setitem(sys.modules, "blog.models", blog)
    monkeypatch.setattr(exposed, "_exposed", {})
    declared: dict[str, Any] = {"INSTALLED_APPS": []}
    exec(written["settings"], declared)
    settings.COUNTERS = declared["COUNTERS"]
    settings.REST_FRAMEWORK = declared["REST_FRAMEWORK"]
    urls = ModuleType("urls_of_the_page")
    exec(written["urls"], vars(urls))
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__
    yield
    clear_url_caches()


@pytest.fixture
def people(transactional_db: None) -> None:
    clerk = User.objects.create_user("clerk", password="clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="adjust_counter"))
    blog.Post.objects.create(pk=1, title="First", slug="first", body="…")


@pytest.mark.usefixtures("site", "people")
def test_every_line_of_curl_is_answered_as_the_page_says() -> None:
    shell, checked = Shell(Client()), 0
    for command, printed in steps(PAGE.partition(EXAMPLE)[0]):
        found = shell.run(command)
        if found is not None and printed:
            assert_printed(printed, found, command)
            checked += 1
    assert checked >= 18


@pytest.mark.usefixtures("people")
def test_the_lines_for_the_example_work_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposed, "_exposed", {})
    (site,) = re.findall(r"^\$ SITE=(.*)$", PAGE, re.MULTILINE)
    example.count_for(site)
    shell, answers = Shell(Client()), []
    for command, _ in steps(PAGE.partition(EXAMPLE)[2]):
        if command.startswith("curl "):
            answers.append(shell.run(command.replace("curl -si ", "curl -s ")) or "")
        else:
            shell.run(command)
    told = [json.loads(answer) for answer in answers]
    assert [one.get("value") for one in told] == [0, 1, 2, 2, 2, None, 0]


def assert_printed(printed: str, found: str, command: str) -> None:
    """The body is the same but for moments; the status and the headers that are shown are there."""
    shown, body = _parted(printed)
    answered, text = _parted(found)
    assert [line for line in shown if line not in answered] == [], command
    assert (text[: len(body) - 2] if body.endswith(" …") else text) == body.removesuffix(" …")


def _parted(printed: str) -> tuple[list[str], str]:
    text = MOMENT.sub("…", printed)
    if not text.startswith("HTTP/"):
        return [], text
    head, _, body = text.partition("\n\n")
    return head.splitlines(), body


@pytest.mark.usefixtures("site", "people")
def test_a_key_that_looks_like_a_route_is_reached_as_the_page_says(client: Client) -> None:
    client.force_login(User.objects.get())
    counted = client.post("/api/v1/counters/votes:a/exact/increment", {}, JSON).json()
    read = client.get("/api/v1/counters/votes:a/exact/exact").json()
    many = client.post("/api/v1/bulk/read", {"keys": ["votes:a/exact"]}, JSON).json()
    assert [one["key"] for one in (counted, read, *many["counters"])] == ["votes:a/exact"] * 3
    assert [one["value"] for one in (counted, read, *many["counters"])] == [1] * 3
    assert client.get("/api/v1/counters/votes:a/exact").json()["key"] == "votes:a"


@pytest.mark.usefixtures("site", "people")
def test_the_test_of_the_page_passes() -> None:
    (written,) = re.findall(r"^```python\n([^`]*?class VoteTests.*?)^```$", PAGE, re.M | re.DOTALL)
    made: dict[str, Any] = {"__name__": __name__}
    exec(written, made)
    found = unittest.TestResult()
    unittest.TestSuite([made["VoteTests"]("test_a_user_votes")]).run(found)
    assert (found.testsRun, found.errors, found.failures) == (1, [], [])


def told() -> dict[tuple[int, str], set[str]]:
    """The table of problems: what each type carries."""
    return {
        (int(status), one.removeprefix(_TYPES)): set(re.findall(r"`(\w+)`", carried))
        for status, types, carried in PROBLEM.findall(PAGE)
        for one in re.findall(r"`([\w:-]+)`", types)
    }


def test_the_table_of_problems_has_each_type_with_its_status() -> None:
    described = {(status, name) for status, one in PROBLEMS.items() for name in one.types}
    known = {(kind.status, kind.name) for kind in _KINDS.values()}
    named = {pair for pair in told() if pair[1] != "about:blank"}
    assert named == described | known
    assert {status for status, _ in told()} == {*PROBLEMS, 405}


def test_the_table_of_problems_has_what_each_carries() -> None:
    for kind in _KINDS.values():
        wanted = {*kind.data, *(["retry_after"] if kind.retry_after else [])}
        assert wanted - {"reason"} <= told()[kind.status, kind.name], kind.name


def test_each_status_has_advice() -> None:
    _, _, advice = PAGE.partition("## What to do with each answer")
    advice, _, _ = advice.partition("\n## ")
    rows = re.findall(r"^\| (\d.*?) \|", advice, re.MULTILINE)
    assert set(re.findall(r"\d{3}", " ".join(rows))) == {"200", "405", "500", *map(str, PROBLEMS)}


def test_the_table_of_rules_has_each() -> None:
    page = text_of(DOCS / "reference" / "settings.md")
    assert "```{from-code} access\n```" in page
    for rule in (*access.RULES, access.BEACON):
        assert re.search(rf'^\| `"{rule}"` \|', page, re.MULTILINE), rule
        assert re.search(rf'^\| `"{rule}"` \|', PAGE, re.MULTILINE), rule


def test_the_table_of_access_has_each_key_with_its_default() -> None:
    table = load_tables().access_table()
    assert re.findall(r"^\| `'(\w+)'` \|", table, re.MULTILINE) == [*access._OPTIONS]
    for default in (access.MAX_DELTA, access.MAX_COUNTERS):
        assert f"| `{default}` |" in table


def test_the_table_of_routes_has_each() -> None:
    _, _, routes = REFERENCE.partition("## Routes")
    routes, _, _ = routes.partition("\n\n| In an answer")
    rows = dict(re.findall(r"^\| `([\w-]+)` \| `(?:GET|POST) ([^`?]+)", routes, re.MULTILINE))
    assert rows == {
        str(one.name): str(one.pattern).replace("<counter_key:key>", "{key}")
        for one in urlpatterns
        if isinstance(one, URLPattern)
    }


def test_the_pages_state_the_sizes_of_the_code() -> None:
    assert f"bodies have up to {LARGEST:,} bytes" in REFERENCE
    assert f"{LARGEST // 1024} KiB" in text_of(DOCS / "explanation" / "security.md")
    for page in (PAGE, REFERENCE):
        assert set(re.findall(r"up to (\d+) (?:counters|at once)", page)) <= {str(MOST_ITEMS)}
        assert f"up to {MOST_ITEMS} counters" in page


def test_the_table_of_the_throttle_has_each_attribute_with_its_default() -> None:
    page = text_of(DOCS / "how-to" / "limit-requests.md")
    for name in ("scope", "rate", "cache", "timeout", "when_away"):
        default = str(getattr(TokenBucketThrottle, name))
        assert re.search(rf'^\| `{name}` \| `"?{default}"?` \|', page, re.MULTILINE), name
