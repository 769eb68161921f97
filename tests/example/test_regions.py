"""Three regions of the example: they are cut off, go on, and agree in the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from example_project.bootstrap.children import until
from example_project.bootstrap.folders import ROOT
from example_project.regions.settings import NAMES
from example_project.regions.world import State, behind, is_exact, verdict
from tests.example.running import PATIENCE, url_of_the_test

COUNTED = {"eu": 5, "us": 7, "ap": 11}
AGREE = {name: State(name, COUNTED[name], COUNTED, 23, counts=False) for name in NAMES}


@contextmanager
def regions(url: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """The command, as a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "example_project.regions", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DATABASE_URL": url},
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


class Visitor:
    """Reads the page, and presses its buttons without JavaScript."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def page(self) -> str:
        text: str = self._opener.open(self._base).read().decode()
        return text

    def press(self, what: str) -> None:
        """Press a button that is there."""
        page = self.page()
        assert f'value="{what}"' in page
        token = re.search(r'name="csrfmiddlewaretoken" value="(.*?)"', page)
        assert token is not None
        said = urlencode({"csrfmiddlewaretoken": token[1], "do": what}).encode()
        self._opener.open(Request(f"{self._base}press", said)).close()

    def told(self) -> Mapping[str, str]:
        found: dict[str, dict[str, str]] = json.load(self._opener.open(f"{self._base}numbers.json"))
        return found["fragments"]


@pytest.mark.many_writers
@pytest.mark.django_db
@pytest.mark.usefixtures("keeps_regions")
def test_who_was_cut_off_agrees_in_the_end() -> None:
    with regions(url_of_the_test(), "--seconds", "3", "--check") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    *lines, last = out.splitlines()
    assert any("us is cut off" in line and "behind" in line for line in lines)
    assert last.endswith(" visits were counted in 3 regions: all agree, and have it once.")
    assert int(last.split()[0].replace(",", "")) > 0


@pytest.mark.many_writers
@pytest.mark.django_db
@pytest.mark.usefixtures("keeps_regions")
def test_the_page_shows_who_is_behind_and_that_all_agree() -> None:
    with regions(url_of_the_test(), "--port", "0") as process:
        assert process.stdout is not None
        visitor = Visitor(process.stdout.readline().split()[0])
        visitor.press("cut us")
        assert until(lambda: is_alone(visitor.told()), PATIENCE)
        visitor.press("heal us")
        visitor.press("rest")
        assert until(lambda: visitor.told()["verdict"].startswith("all agree on"), PATIENCE)
        assert "sees all" in visitor.told()["card-us"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    assert "all agree, and have it once" in out


def is_alone(told: Mapping[str, str]) -> bool:
    """Whether all others are behind, too, and each says so."""
    late = re.fullmatch(r"eu is \d+ behind, us is \d+ behind, ap is \d+ behind", told["verdict"])
    return late is not None and "its lines are cut" in told["card-us"]


def test_all_agree_where_each_sees_what_each_has_counted() -> None:
    assert is_exact(AGREE)
    assert verdict(AGREE) == "all agree on 23"


@pytest.mark.parametrize(
    "wrong",
    [
        {"seen": {**COUNTED, "eu": 4}, "total": 22},
        {"seen": {**COUNTED, "eu": 6}, "total": 24},
        {"total": 24},
        {"counted": 8},
        {"counts": True},
    ],
)
def test_nothing_else_is_agreement(wrong: dict[str, Any]) -> None:
    assert not is_exact({**AGREE, "us": replace(AGREE["us"], **wrong)})


def test_who_misses_something_is_behind() -> None:
    late = replace(AGREE["us"], seen={**COUNTED, "eu": 2}, total=20)
    states = {**AGREE, "us": late}
    assert behind(states) == {"eu": 0, "us": 3, "ap": 0}
    assert verdict(states) == "us is 3 behind"
