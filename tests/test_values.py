"""What a block of a collector shows of itself: values, reads and callbacks."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from django.db import ProgrammingError, connection, transaction
from django.test import TestCase

from django_counters.exceptions import InvalidDelta, ValueNotKnown
from django_counters.models import Counter
from django_counters.testing import assert_counts
from tests.kinds.test_collector import Oops, caught, count

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


class TestUnknownValues:
    def test_any_use_is_an_error(self) -> None:
        with Counter.objects.collect():
            value = Counter.objects.increment("a")
            for name, use in USES.items():
                with pytest.raises(ValueNotKnown) as unknown:
                    pytest.fail(f"{name}: {use(value)!r}")
                assert unknown.value.key == "a"

    def test_code_in_c_takes_no_zero_for_it(self) -> None:
        with Counter.objects.collect():
            value = Counter.objects.increment("a")
            for name, use in USES_IN_C.items():
                with pytest.raises((ValueNotKnown, TypeError)):
                    pytest.fail(f"{name}: {use(value)!r}")

    def test_it_is_no_parameter_of_a_query(self) -> None:
        with Counter.objects.collect():
            value = Counter.objects.increment_many({"a": 1})["a"]
            with (
                pytest.raises((ValueNotKnown, ProgrammingError)),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute("SELECT %s", [value])

    def test_it_is_no_delta(self) -> None:
        with Counter.objects.collect(), pytest.raises(InvalidDelta, match="collected: a"):
            Counter.objects.increment("b", Counter.objects.increment("a"))


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
        ran: list[tuple[int, int]] = []

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
