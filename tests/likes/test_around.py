"""Reading, forgetting, deleting, cool-downs, tokens and cells of counters of actors."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.contrib import likes as app
from django_counters.contrib.likes.liking import has_many
from django_counters.contrib.likes.models import CounterActor
from django_counters.errors import InvalidDelta, TokenConflict
from django_counters.models import Counter, CounterIncident, CounterShard, SlottedCounter
from django_counters.signals import batch_applied
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import forget_actor, verify
from tests.likes.conftest import KINDS, ONCE, Likes, made
from tests.testapp.models import Gem, Note

pytestmark = pytest.mark.django_db


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the clock so many minutes after noon."""

    def sets(minutes: float) -> None:
        moment = datetime(2031, 5, 1, 12, tzinfo=clock.utc().tzinfo) + timedelta(minutes=minutes)
        monkeypatch.setattr(clock, "utc", lambda: moment)

    sets(0)
    return sets


def test_pages_of_actors(likes: Likes, at: Any) -> None:
    for number in range(7):
        at(number // 2)  # two at the same moment
        likes.increment(who=number)
    pages, before = [], None
    while page := likes.actors(limit=3, before=before):
        pages.append([actor.who for actor in page])
        before = page[-1].cursor
    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


def test_a_page_of_records_is_one_query() -> None:
    user: Any = get_user_model().objects.create(username="ann")
    notes = Note.objects.bulk_create([Note() for _ in range(6)])
    for note in notes[::2]:
        note.likes.increment(who=user)
        note.stars.increment(who=f"{user.pk}0")
    with CaptureQueriesContext(connection) as queries:
        assert has_many(notes, user, field=Note.likes) == {note.pk for note in notes[::2]}
    assert len(queries) == 1
    assert has_many([notes[0].pk, notes[1].pk], user.pk, field=Note.likes) == {notes[0].pk}
    assert has_many(notes, user, field=Note.stars) == set()
    gem = Gem.objects.create()
    gem.stars.increment(who=user)
    assert has_many([gem, Gem.objects.create()], user, field=Gem.stars) == {gem.pk}
    keys = ["likes:a", "likes:b", "stars:a"]
    Counter.objects.increment("likes:b", who=user)
    Counter.objects.increment("stars:a", who=user)
    assert has_many(keys, user) == {"likes:b", "stars:a"}


def test_async_twins() -> None:
    async def work(note: Note) -> list[Any]:
        told = [
            await note.likes.aincrement(who="ann"),
            (await app.atoggle(note.likes, "bob")).has,
            await app.ahas(note.likes, "ann"),
            [actor.who for actor in await app.aactors(note.likes, limit=1)],
            await app.ahas_many([note], "bob", field=Note.likes),
            (await note.likes.adecrement(who="eve")).replayed,
            await Counter.objects.aincrement("likes:a", who="ann"),
            (await app.atoggle("likes:a", "ann")).has,
            await app.ahas("likes:a", "ann"),
            await app.ahas_many(["likes:a"], "ann"),
            await app.aactors("likes:a"),
        ]
        return told

    note = Note.objects.create()
    found = async_to_sync(work)(note)
    assert found == [1, True, True, ["bob"], {note.pk}, True, 1, False, False, set(), []]


def test_a_cool_down(at: Any) -> None:
    for likes in made("named reads"), made("note reads"):
        at(0)
        steps = [(0, 1), (29, 1), (30, 2), (31, 2), (90, 3)]
        for minutes, value in steps:
            at(minutes)
            result = likes.increment(who="ann")
            assert (minutes, result.value, result.replayed) == (minutes, value, minutes in (29, 31))
        assert (likes.value(), likes.rows(), likes.has("ann")) == (3, 1, True)
        at(121)
        assert not likes.has("ann")
        for call in likes.decrement, likes.toggle:
            with pytest.raises(InvalidDelta, match="taken back"):
                call(who="ann")
    note = Note.objects.get()
    note.reads.adjust(to=10, reason="-", actor="eve")
    Counter.objects.adjust("reads:page", to=10, reason="-", actor="eve")
    assert (note.reads.value(), Counter.objects.value("reads:page")) == (10, 10)
    assert verify().drifts == []


def test_the_token_comes_first(likes: Likes) -> None:
    token = mint(clock.utc())
    first = likes.increment(who="ann", token=token)
    likes.increment(who="bob")
    likes.decrement(who="ann")
    again = likes.increment(who="ann", token=token)
    assert [(r.value, r.replayed) for r in (first, again)] == [(1, False), (1, True)]
    assert (likes.value(), likes.rows()) == (1, 1)
    with pytest.raises(TokenConflict):
        likes.increment(who="eve", token=token)


def test_listeners_hear_of_what_counted() -> None:
    heard: list[int] = []

    def listen(batch: Any, values: Any, **_: Any) -> None:
        heard.extend(values.values())

    batch_applied.connect(listen)
    try:
        for who in "ann", "ann", "bob":
            Counter.objects.increment("likes:a", who=who)
        Counter.objects.decrement("likes:a", who="eve")
    finally:
        batch_applied.disconnect(listen)
    assert heard == [1, 2]


@pytest.mark.parametrize("kind", ["note likes", "note stars", "note claps", "gem likes"])
def test_a_deleted_record_and_a_new_one_with_its_key(kind: str) -> None:
    other, likes = made(kind), made(kind)
    model: Any = Note if kind.startswith("note") else Gem
    for who in "ann", "bob":
        likes.increment(who=who)
        other.increment(who=who)
    gone = model.objects.order_by("pk")[0]
    pk = gone.pk
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        gone.delete()
        raise ZeroDivisionError
    assert CounterActor.objects.count() == 4
    model.objects.filter(pk=pk).delete()
    assert CounterActor.objects.count() == 2
    model.objects.create(pk=pk)
    assert verify().drifts == []
    assert {likes.value(), other.value()} == {0, 2}
    again = [one.increment(who="ann") for one in (likes, other)]
    assert {(one.value, one.replayed) for one in again} == {(1, False), (2, True)}


def test_a_counter_that_is_forgotten() -> None:
    for kind in "named likes", "named stars":
        likes = made(kind)
        likes.increment(who="ann")
        key = f"{kind.split()[1]}:page"
        assert Counter.objects.forget(key) == 1
        assert (likes.value(), likes.rows()) == (0, 0)
        assert likes.increment(who="ann") == 1


def test_verify_names_those_that_differ() -> None:
    note = Note.objects.create()
    counters = [made(kind) for kind in KINDS]
    for likes in counters:
        likes.increment(who="ann")
    assert verify().drifts == []
    Counter.objects.filter(key="likes:page").update(value=5)
    CounterShard._base_manager.filter(key="stars:page").update(value=0)
    CounterActor.objects.filter(measure__name="claps").delete()
    Note.objects.filter(pk=note.pk).update(likes=7)
    SlottedCounter._base_manager.filter(name="stars").update(count=3)
    found = {drift.key: (drift.expected, drift.actual) for drift in verify().drifts}
    named = {"claps:page": (0, 1), "likes:page": (1, 5), "stars:page": (1, 0)}
    slots = {one for one in found if ".stars:" in one}
    assert found == {
        **named,
        f"testapp.Note.likes:{note.pk}": (0, 7),
        **dict.fromkeys(slots, (1, 3)),
    }
    assert len(slots) == 2
    subjects = CounterIncident.objects.values_list("subject", flat=True)
    assert set(found) <= set(subjects)
    assert verify(namespace="claps").drifts[0].key == "claps:page"
    with pytest.raises(CommandError, match="6 are not what they should be"):
        call_command("counters", "verify", stdout=StringIO())


@pytest.mark.parametrize("keep", [False, True])
def test_a_person_is_forgotten(keep: bool) -> None:
    kinds = (*KINDS, "named reads", "note reads")
    counters = [made(kind) for kind in kinds]
    for likes in counters:
        likes.increment(who="ann")
        likes.increment(who="bob")
    # A namespace that declares nothing any more.
    with override_counters(**{**ONCE, "old": {"ONCE": True}}):
        Counter.objects.increment("old:page", who="ann")
    counts = ["--counts", "keep"] if keep else []
    told = [_told("forget-actor", "ann", *counts, *dry) for dry in (["--dry-run"], [])]
    deed = "renamed" if keep else "taken_back"
    expected = {"taken_back": 0, "renamed": 0, "deleted": 3, deed: 10}
    assert [{key: one[key] for key in expected} for one in told] == [expected] * 2
    assert not CounterActor.objects.filter(actor="ann").exists()
    for likes, kind in zip(counters, kinds, strict=True):
        known = (1, 1) if not keep else (2, 2)
        assert (likes.value(), likes.rows()) == ((2, 1) if "reads" in kind else known)
        assert not likes.has("ann")
        assert likes.has("bob")
    assert verify().drifts == []
    names = CounterActor.objects.exclude(actor="bob").values_list("actor", flat=True)
    assert len(set(names)) == len(names) == 10 * keep
    assert sum(forget_actor("ann").values()) == 0


def _told(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("counters", *arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", KINDS)
def test_one_statement(kind: str) -> None:
    """What is counted, what was counted before, and what is taken back."""
    likes = made(kind)
    likes.increment(who="bob")
    for call, counted in (
        (likes.increment, True),
        (likes.increment, False),
        (likes.decrement, True),
        (likes.decrement, False),
    ):
        with CaptureQueriesContext(connection) as queries:
            assert call(who="ann").replayed is not counted
        # What is declared here alone is no measure that is committed, so it is asked for.
        told = [one["sql"] for one in queries if "countermeasure" not in one["sql"]]
        # A statement that changes a column cannot be part of one that adds to cells.
        assert len(told) == 1 or kind == "note claps"


def test_where_increments_wait_elsewhere() -> None:
    """Counted in slots and in shards, whatever is declared: the row is the same."""
    note = Note.objects.create()
    in_slots, in_shards = SlottedCounter.objects, CounterShard.objects
    assert in_slots.increment(note, "likes", who="ann") == 1
    assert in_shards.increment("likes:page", who="ann") == 1
    for likes in note.likes, made("named likes"):
        told = [likes.increment(who=who) for who in ("ann", "bob", "bob")]
        assert [(r.value, r.replayed) for r in told] == [(1, True), (2, False), (2, True)]
        assert [likes.decrement(who=who).replayed for who in ("ann", "ann")] == [False, True]
        assert likes.value() == 1
    assert in_slots.decrement(note, "likes", who="bob") == 0
    assert in_shards.decrement("likes:page", who="bob") == 0
    assert verify().drifts == []
    assert not CounterActor.objects.exists()


def test_a_count_that_is_too_low_keeps_nobody_from_being_forgotten() -> None:
    """It differs by as much as before; `verify` tells of it."""
    with override_counters(**{**ONCE, "floored": {"ONCE": True, "FLOOR": 0}}):
        Counter.objects.increment("floored:page", who="ann")
        Counter._base_manager.filter(key="floored:page").update(value=0)
        assert forget_actor("ann")["taken_back"] == 1
        assert not CounterActor.objects.exists()
        assert [(one.expected, one.actual) for one in verify().drifts] == [(0, -1)]
