"""The line of the live page: its numbers add up."""

from __future__ import annotations

import pytest

from django_counters.intake.flush import flush
from example_project.blog.models import Post
from example_project.flow import Flow, Meter


@pytest.mark.parametrize(
    ("flow", "line"),
    [
        (Flow(9, 4, 7), "written 9 · unanswered 2 · in Redis 4 · in PostgreSQL 7 · lost 0"),
        (Flow(9, 4, 4), "written 9 · unanswered 0 · in Redis 4 · in PostgreSQL 4 · lost 1"),
        (Flow(9, None, 4), "written 9 · unanswered ? · in Redis ? · in PostgreSQL 4 · lost ?"),
        (Flow(None, 4, 7), "in Redis 4 · in PostgreSQL 7"),
    ],
)
def test_the_line_adds_up(flow: Flow, line: str) -> None:
    assert str(flow) == line


@pytest.mark.django_db(transaction=True)
def test_what_is_counted_before_its_answer_is_shown() -> None:
    post = Post.objects.create(title="A")
    # Somebody has been told of three of the five.
    meter = Meter(lambda: {f"blog.Post.views:{post.pk}": 3})
    post.views.increment(4)
    flush()
    post.views.increment()
    flow = meter.read()
    assert (flow.written, flow.unanswered, flow.waiting, flow.landed) == (3, 2, 1, 4)
