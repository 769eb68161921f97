"""What the visitors of a server take for a figure, and what a report says of their waits."""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from benchmarks import load
from benchmarks.cases import rest
from benchmarks.harness import Case, Result, Round, Sample
from benchmarks.load import Done, Load, LoadFailed, Request
from benchmarks.report import Block, Report

ANSWER = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 3\r\n\r\nabc"


def test_an_answer_is_complete_when_its_body_is_there() -> None:
    assert not any(load.complete(ANSWER[:length]) for length in range(len(ANSWER)))
    assert load.complete(ANSWER)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_another_answer_is_no_figure(answer: bytes) -> None:
    with pytest.raises(LoadFailed):
        load.complete(answer)


@contextmanager
def answering(answers: int) -> Iterator[int]:
    """A server of one connection that answers so often, and hangs up then; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                for _ in range(answers):
                    connection.recv(1000)
                    connection.sendall(ANSWER)
                connection.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(load.ANSWERS_WITHIN)


def test_a_server_that_hangs_up_is_no_figure() -> None:
    with answering(3) as port, load.load(port, 1) as visitors:
        side = visitors.side([Request(b"GET / HTTP/1.1\r\n\r\n")], load.ANSWERS_WITHIN)
        with pytest.raises(LoadFailed, match="the server hung up"):
            side()


@pytest.mark.parametrize(("busy", "fails"), [(0.5, False), (0.51, True)])
def test_visitors_that_have_no_time_are_no_figure(busy: float, fails: bool) -> None:
    ours, theirs = multiprocessing.Pipe()
    theirs.send(Done([0.25, 0.75], 1.0, busy))
    side = Load(ours).side([], 1.0)
    if fails:
        with pytest.raises(LoadFailed, match="51% of a core"):
            side()
    else:
        assert side() == Sample(2, 1.0, (0.25, 0.75))


def test_the_report_has_requests_and_waits_where_they_are_measured() -> None:
    slow = Sample(101, 2.0, tuple(number / 1000 for number in range(101)))
    fast = Sample(4, 0.5, (0.001,) * 4)
    case = Case("waiting", "this", "that", None, partial(rest.counting, *rest.ROWS["exact"]))
    measured = Report([Block({}, [], [Result(case, (Round(slow, fast),) * 5)])])
    (row,) = json.loads(measured.json())["rows"]
    assert (row["subject_per_second"], row["reference_per_second"]) == (50.5, 8.0)
    assert (row["subject_p50_us"], row["subject_p99_us"]) == (50_000, 99_000)
    assert (row["reference_p50_us"], row["reference_p99_us"]) == (1_000, 1_000)
    assert "| waiting | 50 | 50.0 | 99.0 | 8 | 1.0 | 1.0 |" in measured.markdown()
    bare = Round(replace(slow, waits=()), replace(fast, waits=()))
    silent = Report([Block({}, [], [Result(case, (bare,) * 5)])])
    assert "p99" not in silent.markdown() + silent.json() + silent.text()
