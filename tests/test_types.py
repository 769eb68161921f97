"""What is a key, what is a delta."""

from __future__ import annotations

import decimal
import pickle
import re
import unicodedata
from enum import Enum
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_counters import exceptions
from django_counters.exceptions import InsufficientCount, InvalidDelta, InvalidKey
from django_counters.types import (
    INT8,
    KEY_LENGTH,
    Bounds,
    Shortfall,
    check_delta,
    check_key,
    namespace_of,
    short_key,
)

GOOD = ["a", "likes:post:456", "a/b%c*{d}[e]?f=g&h", "größe:Ω", "日本語", "🎉", "x" * KEY_LENGTH]
BAD = [
    ("", "empty"),
    (None, "NoneType"),
    (5, "int"),
    (b"a", "bytes"),
    ("x" * (KEY_LENGTH + 1), "201 characters"),
    ("a b", "white space"),
    ("a\tb", "white space"),
    ("a\n", "white space"),
    ("a\u3000b", "white space"),
    ("a\u00a0b", "white space"),
    ("a\x00b", "printed"),
    ("a\x7f", "printed"),
    ("a\u200bb", "printed"),
    ("\ud800", "printed"),
    ("e\u0301", "normalization"),
]


@pytest.mark.parametrize("key", GOOD)
def test_printable_text_is_a_key(key: str) -> None:
    assert check_key(key) == key
    assert short_key(key) == key


def test_a_member_of_an_enumeration_is_the_text_that_it_holds() -> None:
    class Key(str, Enum):  # noqa: UP042 - StrEnum would not show it
        STOCK = "stock:x"

    assert check_key(Key.STOCK) == "stock:x"
    assert type(check_key(Key.STOCK)) is str


@pytest.mark.parametrize(("key", "reason"), BAD)
def test_a_bad_key_is_refused_with_its_reason(key: object, reason: str) -> None:
    with pytest.raises(InvalidKey, match=reason) as caught:
        check_key(key)
    assert caught.value.key == key
    assert isinstance(caught.value, ValueError)


@given(st.text(min_size=1, max_size=600))
def test_any_text_has_a_short_key(text: str) -> None:
    assert check_key(short_key(text)) == short_key(text)


visible = st.characters(categories=("L", "N", "P", "S"), exclude_characters=":")
namespaces = st.text(visible, min_size=1, max_size=10).map(partial(unicodedata.normalize, "NFC"))


@given(namespaces, st.text(min_size=1))
def test_a_short_key_keeps_the_namespace(namespace: str, text: str) -> None:
    assert namespace_of(short_key(f"{namespace}:{text}")) == namespace


def test_short_keys_of_different_texts_differ() -> None:
    beginning = "page:/" + "x" * 300
    keys = {short_key(beginning + str(i)) for i in range(100)}
    assert len(keys) == 100


def test_the_short_form_is_stable() -> None:
    # Rows in databases are found by it: this line must never change.
    assert short_key("a b") == "a_b~c8687a08aa5d6ed2044328fa6a697ab8"
    assert re.fullmatch(r"y{167}~[0-9a-f]{32}", short_key("y" * 500))


@pytest.mark.parametrize(
    ("key", "namespace"), [("a:b:c", "a"), ("a", ""), (":a", ""), ("a:", "a"), ("a/b:c", "a/b")]
)
def test_the_namespace_stands_before_the_first_colon(key: str, namespace: str) -> None:
    assert namespace_of(key) == namespace


@pytest.mark.parametrize(
    "delta",
    [True, False, 1.0, 1.5, decimal.Decimal(1), "1", None, 0, INT8[1] + 1, INT8[0] - 1, b"1"],
)
def test_a_bad_delta_is_refused(delta: object) -> None:
    with pytest.raises(InvalidDelta) as caught:
        check_delta(delta)
    assert caught.value.delta == delta


@pytest.mark.parametrize("delta", [1, -1, *INT8])
def test_an_integer_of_64_bits_is_a_delta(delta: int) -> None:
    assert check_delta(delta) == delta


@given(
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.none() | st.integers(-20, 20),
    st.none() | st.integers(-20, 20),
)
def test_only_the_bound_a_value_moves_towards_is_asked(
    value: int, by: int, floor: int | None, ceiling: int | None
) -> None:
    admitted = Bounds(floor, ceiling).admits(value, by)
    crosses_floor = by < 0 and floor is not None and value + by < floor
    crosses_ceiling = by >= 0 and ceiling is not None and value + by > ceiling
    assert admitted == (not crosses_floor and not crosses_ceiling)


def test_a_call_narrows_bounds_and_never_widens_them() -> None:
    assert Bounds(0, 10).stricter(Bounds(-5, 20)) == Bounds(0, 10)
    assert Bounds(0, 10).stricter(Bounds(5, 8)) == Bounds(5, 8)
    assert Bounds(None, 10).stricter(Bounds(1, None)) == Bounds(1, 10)


def test_errors_survive_pickling_with_their_data() -> None:
    shortfall = Shortfall("k", 2, 1, 0)
    error = InsufficientCount(key="k", requested=2, available=1, floor=0, shortfalls=(shortfall,))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is InsufficientCount
    assert vars(copy) == vars(error)
    assert str(copy) == "k has 1 to give above its floor 0, 2 were requested."


def test_the_message_of_every_error_names_only_its_attributes() -> None:
    for error in vars(exceptions).values():
        if isinstance(error, type) and issubclass(error, exceptions.CounterError):
            names = set(re.findall(r"{(\w+)", (error.__doc__ or "").partition("\n")[0]))
            known = {
                name for base in error.__mro__ for name in vars(base).get("__annotations__", {})
            }
            assert names <= known, error
