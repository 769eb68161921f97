"""Bodies are checked by serializers that are kept: as by new ones, and by nobody's before."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.exceptions import ValidationError

from django_counters.rest import bodies
from django_counters.rest.bodies import Body, checker

ITEM = {"key": "likes:a", "by": 2}
SENT: list[tuple[type[Body], Any]] = [
    (bodies.ChangeBody, {}),
    (bodies.ChangeBody, {"by": 3}),
    (bodies.ChangeBody, {"by": 0}),
    (bodies.ChangeBody, {"by": True}),
    (bodies.ChangeBody, {"bye": 1}),
    (bodies.ChangeBody, []),
    (bodies.ChangeManyBody, {}),
    (bodies.ChangeManyBody, {"counters": [ITEM, {"key": "likes:b"}]}),
    (bodies.ChangeManyBody, {"counters": [ITEM, ITEM]}),
    (bodies.ChangeManyBody, {"counters": [ITEM, {"key": 1}, {"by": 2.5, "x": 0}]}),
    (bodies.ReadManyBody, {"keys": ["likes:a"]}),
    (bodies.ReadManyBody, {"keys": "likes:a", "consistency": "some"}),
    (bodies.AdjustBody, {"to": 1, "reason": "lost"}),
    (bodies.AdjustBody, {"to": 1, "by": 1, "reason": ""}),
    (bodies.AdjustBody, {}),
]


def by_a_new_one(body: type[Body], sent: Any) -> Any:
    serializer = body(data=sent)
    return serializer.validated_data if serializer.is_valid() else serializer.errors


def by_the_kept_one(body: type[Body], sent: Any) -> Any:
    try:
        return checker(body).run_validation(sent)
    except ValidationError as error:
        return error.detail


@pytest.mark.parametrize(("body", "sent"), SENT, ids=str)
def test_a_kept_serializer_says_what_a_new_one_says(body: type[Body], sent: Any) -> None:
    for other, before in SENT:
        by_the_kept_one(other, before)
    assert by_the_kept_one(body, sent) == by_a_new_one(body, sent)


def test_no_object_at_all_is_refused() -> None:
    assert by_the_kept_one(bodies.ChangeBody, None) == ["An object is needed."]


def test_it_is_made_once() -> None:
    assert checker(bodies.ChangeBody) is checker(bodies.ChangeBody)
    assert checker(bodies.ChangeBody) is not checker(bodies.AdjustBody)
