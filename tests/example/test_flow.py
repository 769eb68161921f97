"""The line of the live page: its numbers add up."""

from __future__ import annotations

import pytest

from django_counters.cached.flush import flush
from example_project.blog.models import Post
from example_project.flow import Flow, Meter


@pytest.mark.parametrize(
    ("flow", "line"),
    [
        (Flow(9, 4, 7), "written 9 · in flight 2 · in Redis 4 · in PostgreSQL 7 · lost 0"),
        (Flow(9, 4, 4), "written 9 · in flight 0 · in Redis 4 · in PostgreSQL 4 · lost 1"),
        (Flow(9, None, 4), "written 9 · in flight ? · in Redis ? · in PostgreSQL 4 · lost ?"),
        (
            Flow(9, 4, 7, unknown=3),
            "written 9 · in flight 0 · in Redis 4 · in PostgreSQL 7 · lost 0 · unknown 3"
            " · not counted 1",
        ),
        (Flow(None, 4, 7), "in Redis 4 · in PostgreSQL 7"),
    ],
)
def test_the_line_adds_up(flow: Flow, line: str) -> None:
    assert str(flow) == line


@pytest.mark.parametrize("unknown", [0, 1, 4])
@pytest.mark.parametrize("asked", [0, 1, 4])
@pytest.mark.parametrize("landed", [0, 4, 5, 6, 9])
def test_whatever_is_read_it_adds_up(landed: int, asked: int, unknown: int) -> None:
    flow = Flow(7, 2, landed, unknown, asked)
    after = (flow.in_flight, flow.lost, flow.not_counted)
    in_flight, lost, not_counted = (number or 0 for number in after)
    assert 7 + in_flight + unknown == 2 + landed + lost + not_counted
    assert min(in_flight - asked, lost, not_counted) >= 0
    # As much as can hide what is lost.
    assert not_counted <= asked + unknown


@pytest.mark.django_db(transaction=True)
def test_what_is_counted_before_its_answer_is_shown() -> None:
    post = Post.objects.create(title="A")
    # Somebody has been told of three of the five.
    meter = Meter(lambda: {f"blog.Post.views:{post.pk}": 3})
    post.views.increment(4)
    flush()
    post.views.increment()
    flow = meter.read()
    assert (flow.written, flow.in_flight, flow.waiting, flow.landed) == (3, 2, 1, 4)
