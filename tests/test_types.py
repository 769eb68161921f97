"""What is a key, what is a delta."""

from __future__ import annotations

import pickle
import re
import unicodedata
from enum import Enum
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_counters.errors import InsufficientCount, Shortfall
from django_counters.types import (
    KEY_LENGTH,
    Bounds,
    check_key,
    namespace_of,
    short_key,
)

GOOD = ["a", "likes:post:456", "a/b%c*{d}[e]?f=g&h", "größe:Ω", "日本語", "🎉", "x" * KEY_LENGTH]


@pytest.mark.parametrize("key", GOOD)
def test_printable_text_is_a_key(key: str) -> None:
    assert check_key(key) == key
    assert short_key(key) == key


def test_a_member_of_an_enumeration_is_the_text_that_it_holds() -> None:
    class Key(str, Enum):  # noqa: UP042 - StrEnum would not show it
        STOCK = "stock:x"

    assert check_key(Key.STOCK) == "stock:x"
    assert type(check_key(Key.STOCK)) is str


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


def test_errors_survive_pickling_with_their_data() -> None:
    shortfall = Shortfall("k", 2, 1, 0)
    error = InsufficientCount(key="k", requested=2, available=1, floor=0, shortfalls=(shortfall,))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is InsufficientCount
    assert vars(copy) == vars(error)
    assert str(copy) == "k has 1 to give above its floor 0, 2 were requested."
