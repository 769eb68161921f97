"""``manage.py counters adjust``: what a file may say, and what is said of it."""

from __future__ import annotations

import getpass
import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from tests.testapp.models import Country, Post, Song

pytestmark = pytest.mark.django_db


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "stock.csv"


def run(table: Path, content: str | bytes, *arguments: str) -> str:
    """Adjust what a file with this content says; what is printed."""
    table.write_bytes(content if isinstance(content, bytes) else content.encode())
    out = StringIO()
    given = ("--from", str(table), "--reason", "recount", *arguments)
    call_command("counters", "adjust", *given, stdout=out)
    return out.getvalue().strip()


def refused(table: Path, content: str | bytes, *arguments: str) -> str:
    """What is said of a file of which nothing is done."""
    with pytest.raises(CommandError) as caught:
        run(table, content, *arguments)
    assert not CounterAdjustment.objects.exists()
    assert caught.value.returncode == 1
    return str(caught.value)


class TestWhatItDoes:
    def test_values(self, table: Path) -> None:
        Counter.objects.increment_many({"a": 5, "b": 5})
        said = run(table, "counter,to\na,7\nb,-1\nc,+3\n", "--actor", "ann", "--case", "T-17")
        assert said == "case T-17: 3 adjusted, by -1 together"
        assert Counter.objects.values_of(["a", "b", "c"]) == {"a": 7, "b": -1, "c": 3}
        rows = CounterAdjustment.objects.order_by("number")
        assert {(row.reason, row.case, row.actor_name) for row in rows} == {
            ("recount", "T-17", "ann")
        }
        assert [(row.key, row.before, row.after) for row in rows] == [
            *(("a", 5, 7), ("b", 5, -1), ("c", 0, 3))
        ]

    def test_a_dry_run(self, table: Path) -> None:
        Counter.objects.increment("a", 5)
        said = run(table, "counter,to\na,7\n", "--dry-run", "--case", "T-17").splitlines()
        assert said == ["a: 5 -> 7", "case T-17: 1 would be adjusted, by +2 together"]
        assert not CounterAdjustment.objects.exists()

    def test_the_same_file_again(self, table: Path) -> None:
        content = "counter,by\na,5\nb,5\n"
        run(table, content, "--step", "1")
        said = run(table, content)
        assert said.endswith("0 adjusted, by +0 together; 2 were adjusted before")
        # What the file says is part of what it is called.
        run(table, "by,counter\n5,a\n6,b\n")
        assert Counter.objects.values_of(["a", "b"]) == {"a": 10, "b": 11}
        assert CounterAdjustment.objects.latest("number").actor_name == getpass.getuser()
        cases = set(CounterAdjustment.objects.values_list("case", flat=True))
        assert len(cases) == 2
        assert all(case.startswith("stock.csv ") for case in cases)

    def test_refused_ones_fail_it_and_the_others_are_done(self, table: Path) -> None:
        out = StringIO()
        table.write_text("counter,to\nc:a,-1\nc:b,5\n")
        given = ("--from", str(table), "--reason", "r", "--json")
        with (
            override_counters(c={"FLOOR": 0}),
            pytest.raises(CommandError, match=r"1 were refused: c:a: c:a has 0") as caught,
        ):
            call_command("counters", "adjust", *given, stdout=out)
        assert caught.value.returncode == 1
        said = json.loads(out.getvalue())
        assert (said["adjusted"], list(said["refused"])) == (1, ["c:a"])
        assert Counter.objects.value("c:b") == 5
        with override_counters(c={"FLOOR": 0}):
            run(table, table.read_text(), "--allow-below-floor")
        assert Counter.objects.value("c:a") == -1

    def test_an_approver(self, table: Path) -> None:
        with override_counters(c={"APPROVE_ABOVE": 5}):
            said = refused(table, "counter,to\nc:a,6\n")
            assert "second person" in said
            run(table, "counter,to\nc:a,6\n", "--approver", "bob")
        assert CounterAdjustment.objects.get().approver_name == "bob"
        with pytest.raises(CommandError, match="another person"):
            run(table, "counter,to\nc:a,7\n", "--approver", "bob", "--actor", "bob")

    def test_records(self, table: Path) -> None:
        post, song = Post.objects.create(), Song.objects.create()
        run(
            table,
            f"field,counter,to\ntestapp.Post.likes,{post.pk},3\n"
            f"testapp.Song.plays,{song.pk},4\ntestapp.Post.downloads,{post.pk},5\n,a,6\n",
        )
        post.refresh_from_db()
        assert (post.likes, song.plays.read().value, Counter.objects.value("a")) == (3, 4, 6)
        labels = set(CounterAdjustment.objects.values_list("field", flat=True))
        assert labels == {"testapp.Post.likes", "testapp.Song.plays", "testapp.Post.downloads", ""}

    @pytest.mark.django_db(databases=["default", "other"])
    def test_another_database(self, table: Path) -> None:
        run(table, "counter,to\na,7\n", "--database", "other")
        assert Counter.objects.value("a", using="other") == 7
        assert not CounterAdjustment.objects.exists()


def columns(head: str) -> str:
    return f"{head}\n{','.join('7' * len(head.split(',')))}\n"


HEADS = (
    *("counter", "to", "counter,to,by", "counter,amount", "Counter,to", "counter, to"),
    *("counter,to,to", "counter,counter,to", "counter;to", "counter,to,", "a,7"),
    "counter,to,note",
)
NUMBERS = (
    *("1e3", "\uff11\uff12", " 5", "5 ", "5.0", "0x5", "1_000", "", "-", "+", "--5", "five", "5;"),
    *("9223372036854775808", "-9223372036854775809", "9" * 5000, "٣", "²"),
)
ROWS = ("b", "b,", "b,1,2", "b,1,", ",1", '"",1', "b c,1", "x" * 201 + ",1")
FIELDS = (
    *("testapp.Post.title,1,1", "testapp.Nothing.likes,1,1", "likes,1,1", "x.y,1,1"),
    *("testapp.Post.likes,x,1", "testapp.Post.likes,01,1", "testapp.Post.likes,,1"),
    "testapp.Account.balance,1,1",
)
EMPTY = ("", "\n\n", "counter,to\n", "counter,to\n\n")
TRACKS = "field,counter,to\ntestapp.BonusTrack.plays,1,1\ntestapp.Track.plays,1,1\n"
# Files of which nothing is done, and what is said of them.
REFUSED: list[tuple[str | bytes, str]] = [
    *((columns(head), "needs the columns") for head in HEADS),
    *((content, "no rows below its header") for content in EMPTY),
    *((f"counter,to\na,1\n\nb,{number}\n", ", line 4: ") for number in NUMBERS),
    *((f"counter,to\na,1\n{row}\n", ", line 3: ") for row in ROWS),
    *((f"field,counter,to\n,a,1\n{row}\n", ", line 3: ") for row in FIELDS),
    ("counter,by\na,1\nb,0\n", ", line 3: "),
    (TRACKS, "testapp.Track.plays:1 is in the file twice"),
    *((content, "can't be read") for content in (b"counter,to\n\xff,1\n", b'counter,to\n"a,1\n')),
]


class TestFile:
    @pytest.mark.parametrize(
        "content",
        [
            b"\xef\xbb\xbfcounter,to\na,7\n",
            b"counter,to\r\na,7\r\n",
            b"counter,to\ra,7\r",
            b"counter,to\na,7",
            b'"counter","to"\n"a","7"\n',
            b"counter,to\n\n\na,7\n\n",
            b'counter,field,to\na,"",7\n',
        ],
    )
    def test_the_same_in_many_forms(self, table: Path, content: bytes) -> None:
        run(table, content)
        assert Counter.objects.value("a") == 7

    def test_a_key_of_two_lines(self, table: Path) -> None:
        Country.objects.create(code='x,"y\nz')
        field = ("--field", "testapp.Country.visits")
        assert ", line 4: " in refused(table, 'counter,to\n"x\ny",1\nz,q\n', *field)
        run(table, 'counter,to\n"x,""y\nz",7\n', *field)
        assert Country.objects.get().visits.read().value == 7

    def test_what_is_wrong_in_it(self, table: Path) -> None:
        for content, said in REFUSED:
            assert said in refused(table, content), content

    def test_a_counter_that_stands_there_twice(self, table: Path) -> None:
        said = refused(table, "counter,to\na,1\n\nb,1\na,2\n")
        assert said == f"{table}, line 5: a is in the file twice."

    def test_a_file_that_is_not_there(self, table: Path) -> None:
        with pytest.raises(CommandError, match="can't be read"):
            call_command("counters", "adjust", "--from", str(table / "x"), "--reason", "r")

    def test_who_has_no_name(self, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in a container that runs under a number."""
        for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
        assert "--actor" in refused(table, "counter,to\na,1\n")
        run(table, "counter,to\na,1\n", "--actor", "ann")

    def test_no_reason(self, table: Path) -> None:
        with pytest.raises(CommandError):
            call_command("counters", "adjust", "--from", str(table))
        assert "reason must be a text" in refused(table, "counter,to\na,1\n", "--reason", " ")
