"""Reading an access log: two readers agree, and each line is read once however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_project.access_log import lines_of, parse, split
from example_project.recount import recount

FRAGMENTS = [
    b"1.2.3.4 ", b"- ", b"[", b"]", b'"', b'" ', b"\\", b" ", b"200", b"GET ", b"/a", b"?", b"\xff",
    b"[17/May/2015:10:05:03 +0000] ", b'"GET /a HTTP/1.1" ', b"200 ", b"\r", b"\xc2\xa0", b"\t",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join))
def test_both_readers_agree_on_anything(
    tmp_path_factory: pytest.TempPathFactory, line: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "anything.log"
    path.write_bytes(line + b"\n")
    entry = parse(line.removesuffix(b"\r"))
    assert set(recount(path).totals) == (set(entry.counters()) if entry else set())


CONTENTS = st.binary(max_size=60) | st.lists(
    st.sampled_from([b"", b"a", b"bb", b"c\r"]), max_size=9
).map(b"\n".join)


@given(CONTENTS, st.integers(1, 40))
def test_any_bytes_in_any_number_of_parts_give_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, parts: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "split.log"
    path.write_bytes(content)
    whole = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    if content.endswith(b"\n") or not content:
        whole.pop()
    read = [line for part in split(len(content), parts) for line in lines_of(path, part)]
    assert read == whole
