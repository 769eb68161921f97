"""Reading an access log: which lines count, and that each is read once however it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_project.access_log import Entry, lines_of, parse, split
from example_project.recount import recount

GOOD = b'1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /a?b=1 HTTP/1.1" 200 12 "-" "agent"'


def changed(old: bytes, new: bytes) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new)


COUNTED = [
    pytest.param(GOOD, "/a", "200", "2015-05-17T10", id="combined"),
    pytest.param(GOOD[:-1], "/a", "200", "2015-05-17T10", id="last quote missing"),
    pytest.param(GOOD[: GOOD.index(b" 12")], "/a", "200", "2015-05-17T10", id="ends in the status"),
    pytest.param(changed(b"+0000", b"-0930"), "/a", "200", "2015-05-17T10", id="its own zone"),
    pytest.param(
        changed(b"GET /a?b=1 HTTP/1.1", b"GET /a"), "/a", "200", "2015-05-17T10", id="0.9"
    ),
    pytest.param(changed(b"/a?b=1", b'/a\\"b'), '/a\\"b', "200", "2015-05-17T10", id="escape"),
    pytest.param(changed(b"/a?b=1", b"*"), "*", "200", "2015-05-17T10", id="asterisk"),
    pytest.param(changed(b"1.2.3.4 -", b"[::1] -"), "/a", "200", "2015-05-17T10", id="brackets"),
    pytest.param(
        changed(b"- - [", b"- a b ["), "/a", "200", "2015-05-17T10", id="user of two words"
    ),
    pytest.param(changed(b"/a?", b"/\xff?"), "/\udcff", "200", "2015-05-17T10", id="bad bytes"),
    pytest.param(
        changed(b"17/May/2015", b"29/Feb/2016"), "/a", "200", "2016-02-29T10", id="leap day"
    ),
]

MALFORMED = [
    pytest.param(b"", id="blank"),
    pytest.param(b" ", id="space"),
    pytest.param(b"\x00\xfe\xff garbage", id="garbage"),
    pytest.param(GOOD[: GOOD.index(b" HTTP")], id="cut off in the request"),
    pytest.param(GOOD[: GOOD.index(b" 200")], id="cut off before the status"),
    pytest.param(changed(b" 200 ", b" 20 "), id="short status"),
    pytest.param(changed(b" 200 ", b" 2000 "), id="long status"),
    pytest.param(changed(b" 200 ", b" 099 "), id="status below 100"),
    pytest.param(changed(b" 200 ", b" 600 "), id="status above 599"),
    pytest.param(changed(b" 200 ", b" - "), id="no status"),
    pytest.param(changed(b"GET /a?b=1 HTTP/1.1", b"-"), id="no request"),
    pytest.param(changed(b"GET /a?b=1 HTTP/1.1", b"GET"), id="no path"),
    pytest.param(changed(b"GET ", b"GET  "), id="two spaces"),
    pytest.param(changed(b"GET ", b"\\x16\\x03 "), id="no method"),
    pytest.param(changed(b"17/May", b"31/Feb"), id="impossible day"),
    pytest.param(changed(b"17/May", b"17/may"), id="month in small letters"),
    pytest.param(changed(b"17/May", b"17/Mai"), id="foreign month"),
    pytest.param(changed(b"17/May", b" 7/May"), id="day of one digit"),
    pytest.param(changed(b":10:05:03", b":24:05:03"), id="hour 24"),
    pytest.param(changed(b":10:05:03", b":10:60:03"), id="minute 60"),
    pytest.param(changed(b":10:05:03", b":10:05:60"), id="second 60"),
    pytest.param(changed(b"+0000", b"+2400"), id="impossible zone"),
    pytest.param(changed(b"+0000", b"+0060"), id="impossible minutes of zone"),
    pytest.param(changed(b"+0000", b"UTC"), id="zone by name"),
    pytest.param(changed(b"2015", "٢٠١٥".encode()), id="other digits"),
    pytest.param(changed(b"[17", b"17"), id="no bracket"),
    pytest.param(changed(b"1.2.3.4", b""), id="no host"),
]


@pytest.mark.parametrize(("line", "page", "status", "hour"), COUNTED)
def test_lines_that_count(line: bytes, page: str, status: str, hour: str, tmp_path: Path) -> None:
    assert parse(line) == Entry(page, status, hour)
    assert recounted(tmp_path, line) == {
        f"page:{page}": 1,
        f"status:{status}": 1,
        f"hour:{hour}": 1,
    }


@pytest.mark.parametrize("line", MALFORMED)
def test_malformed_lines(line: bytes, tmp_path: Path) -> None:
    assert parse(line) is None
    assert recounted(tmp_path, line) == {}


def recounted(folder: Path, line: bytes) -> dict[str, int]:
    (folder / "log").write_bytes(line + b"\n")
    found = recount(folder / "log")
    assert (found.lines, found.malformed) == (1, 0 if found.totals else 1)
    return dict(found.totals)


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


@given(st.binary(max_size=60), st.integers(1, 9))
def test_any_bytes_in_any_number_of_parts_give_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, parts: int
) -> None:
    assert_each_line_once(tmp_path_factory, content, parts)


@given(st.lists(st.sampled_from([b"", b"a", b"bb", b"c\r"]), max_size=9), st.integers(1, 40))
def test_short_lines_in_any_number_of_parts_are_read_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], parts: int
) -> None:
    assert_each_line_once(tmp_path_factory, b"\n".join(lines), parts)


def assert_each_line_once(folders: pytest.TempPathFactory, content: bytes, parts: int) -> None:
    path = folders.getbasetemp() / "split.log"
    path.write_bytes(content)
    whole = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    if content.endswith(b"\n") or not content:
        whole.pop()
    read = [line for part in split(len(content), parts) for line in lines_of(path, part)]
    assert read == whole
