"""What counting returns where no number is known, and callbacks of a collector."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.template import Context, Template
from django.test import TestCase

from django_counters.errors import InvalidDelta, ValueNotKnown
from django_counters.models import Counter
from django_counters.testing import assert_counts
from django_counters.types import Appended, Result, Unknown
from tests.testapp.models import Post
from tests.write.test_collector import Oops, caught, count

pytestmark = pytest.mark.django_db


USES: dict[str, Callable[[Any], Any]] = {
    "equal": lambda v: v == 1,
    "equal, reflected": lambda v: 1 == v,  # noqa: SIM300
    "less": lambda v: v < 1,
    "less, reflected": lambda v: 1 < v,  # noqa: SIM300
    "max": lambda v: max(v, 1),
    "add": lambda v: v + 1,
    "radd": lambda v: 1 + v,
    "sum": lambda v: sum([v]),
    "multiply": lambda v: v * 2,
    "divmod": lambda v: divmod(v, 2),
    "power": lambda v: v**2,
    "rpower": lambda v: 2**v,
    "shift": lambda v: v << 1,
    "and": lambda v: v & 1,
    "or": lambda v: v | 1,
    "invert": lambda v: ~v,
    "round": round,
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "hash": hash,
    "format": lambda v: f"{v}",
    "percent s": lambda v: "%s" % v,  # noqa: UP031
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "bits": lambda v: v.bit_length(),
    "real": lambda v: v.real,
}

# Code in C that would take the number of an int without asking it.
USES_IN_C: dict[str, Callable[[Any], Any]] = {
    "percent d": lambda v: "%d" % v,  # noqa: UP031
    "hex": hex,
    "range": range,
    "index": lambda v: "ab"[v],
    "json": json.dumps,
}


# What would be a wrong number, or a text, and no error.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    name: USES[name]
    for name in ("less", "less, reflected", "max", "add", "radd", "sum", "multiply", "divmod")
} | {
    "multiplied": lambda v: 2 * v,
    "remainder": lambda v: v % 2,
    "bits": lambda v: v | 1,
    "invert": lambda v: ~v,
    "round": round,
    "int": int,
    "float": float,
    "two of them": lambda v: v + v,
    "two of them, compared": lambda v: v < v,
    "two of them, sorted": lambda v: sorted([v, v]),
    "joined": lambda v: "views: " + v,
    **USES_IN_C,
}
del NUMBERS["json"]


def unloaded() -> Any:
    return Post.views.of(1)


class TestACounterWithoutItsNumber:
    def test_any_use_is_an_error(self) -> None:
        for name, use in USES.items():
            with pytest.raises(ValueNotKnown) as unknown:
                pytest.fail(f"{name}: {use(unloaded())!r}")
            assert unknown.value.key == "testapp.Post.views:1"

    def test_code_in_c_takes_no_zero_for_it(self) -> None:
        for name, use in USES_IN_C.items():
            with pytest.raises((ValueNotKnown, TypeError)):
                pytest.fail(f"{name}: {use(unloaded())!r}")


class TestResults:
    @pytest.fixture
    def unknown(self) -> Any:
        with Counter.objects.collect():
            return Counter.objects.increment("a")

    def test_it_can_be_shown_and_sent_everywhere(self, unknown: Any) -> None:
        shown = [f"{unknown}", f"{unknown:,}", f"{unknown:05d}", "%s" % unknown, str(unknown)]  # noqa: UP031
        assert shown == ["unknown"] * 5
        assert [f"{unknown:>9}", f"{unknown:010}", f"{unknown:.3}"] == [
            "  unknown",
            "unknown",
            "unknown",
        ]
        assert Template("{{ value }}").render(Context({"value": unknown})) == "unknown"
        assert json.dumps({"value": unknown}) == '{"value": "unknown"}'
        assert json.dumps(unknown.value) == "null"

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
    )
    def test_a_copy_knows_the_same(self, copied: Callable[[Any], Any]) -> None:
        unknown = Unknown("a", Unknown.COMMIT, replayed=True)
        entry = Appended("b", uuid4(), replayed=True)
        for one in (copied(unknown), copied(entry)):
            assert (str(one), one.value, one.replayed) == ("unknown", None, True)
        assert (copied(unknown).key, copied(unknown).reason) == ("a", Unknown.COMMIT)
        assert (copied(entry).key, copied(entry).token) == ("b", entry.token)

    def test_nothing_takes_it_for_a_number(self, unknown: Any) -> None:
        for name, use in NUMBERS.items():
            with pytest.raises((TypeError, ValueError)):
                pytest.fail(f"{name}: {use(unknown)!r}")
        assert unknown != 1
        assert unknown != Unknown("a", Unknown.COLLECTED)

    def test_it_is_no_parameter_of_a_query(self, unknown: Any) -> None:
        with pytest.raises(TypeError, match="expected a number"):
            Post.objects.filter(views=unknown).exists()

    def test_it_is_no_delta(self, unknown: Any) -> None:
        with pytest.raises(InvalidDelta, match="Unknown"):
            Counter.objects.increment("b", unknown)

    def test_a_number_is_an_int(self) -> None:
        counted = Counter.objects.increment("a", 3)
        assert (counted, counted.value, type(counted.value), counted.replayed) == (3, 3, int, False)
        assert json.dumps(Counter.objects.increment_many({"a": 1, "b": 2})) == '{"a": 4, "b": 2}'
        assert Counter.objects.increment_many({}) == {}


class TestAnInstance:
    def test_what_a_change_returned_can_be_assigned(self, settings: Any) -> None:
        settings.DEBUG = True
        post: Any = Post.objects.create()
        post.views = post.views.increment(3)
        post.views = post.views.increment(2, token="a")
        post.views = post.views.increment(2, token="a")
        assert (post.views, type(vars(post)["views"])) == (5, int)
        post.views = Unknown("a", Unknown.COMMIT)
        assert post.views.increment() == 6
        post.save()


class TestCallbacks:
    def test_captured_callbacks_are_those_of_the_user_alone(self) -> None:
        ran: list[int] = []
        with TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
            transaction.on_commit(lambda: ran.append(0))
            with Counter.objects.collect():
                count("a")
                transaction.on_commit(lambda: ran.append(1))
                with caught(), transaction.atomic():
                    count("a")
                    transaction.on_commit(lambda: ran.append(9))
                    raise Oops
                with transaction.atomic():
                    count("a")
                    transaction.on_commit(lambda: ran.append(2))
                with caught(), Counter.objects.collect():
                    count("a")
                    raise Oops
            transaction.on_commit(lambda: ran.append(3))
        assert len(callbacks) == 4
        assert ran == [0, 1, 2, 3]

    @pytest.mark.django_db(transaction=True)
    def test_callbacks_run_once_and_in_order_after_the_commit(self) -> None:
        ran: list[tuple[int, Result]] = []

        def note(number: int) -> None:
            transaction.on_commit(lambda: ran.append((number, Counter.objects.increment("ran"))))

        with Counter.objects.collect():
            note(1)
            count("a")
            note(2)
            with transaction.atomic():
                count("a")
                note(3)
        assert ran == [(1, 1), (2, 2), (3, 3)]
        assert_counts({"a": 2, "ran": 3})
