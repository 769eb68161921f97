"""Work in a thread beside the site."""

from __future__ import annotations

import threading

import pytest

from example_project.background import meanwhile
from example_project.bootstrap.children import until
from example_project.tally import Tally


def test_work_that_breaks_off_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    def work(stop: threading.Event) -> None:
        raise ZeroDivisionError(f"{stop.is_set()}")

    tally = Tally()
    with meanwhile(work, "the work", tally):
        assert until(lambda: bool(tally.failures()), 20)
    assert tally.failures() == ["the work broke off: ZeroDivisionError('False')"]
    assert "Traceback" in capsys.readouterr().err
