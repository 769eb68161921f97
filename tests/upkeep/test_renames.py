"""Fields that are renamed take along what waits for them under the old name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from django_counters import upkeep
from django_counters.cached.flush import flush
from django_counters.cached.sources import pending_in
from django_counters.metrics.doctor import examine
from django_counters.models import CounterIncident, SlottedCounter
from django_counters.types import Delta
from django_counters.upkeep import strangers
from tests.settling import roll_up
from tests.testapp.models import Article, Song

pytestmark = pytest.mark.django_db(transaction=True)
MIGRATION = """
from django.db import migrations
from django.db.migrations import *
from django.db.models import IntegerField
from django_counters import CounterField

class Migration(migrations.Migration):
    operations = [
        RenameField("Tune", "heard", "played"),
        RenameModel("Tune", "Song"),
        RenameField("Song", "played", "plays"),
        SeparateDatabaseAndState(state_operations=[RenameField("Article", "seen", "reads")]),
        # Another field has had the name since.
        RenameField("Article", "views", "shares"),
        RenameField("Moment", "heard", "other"),
        AddField("Song", "hot", CounterField(strategy="slotted")),
        RenameField("Song", "hot", "heat"),
        RemoveField("Song", "heat"),
        # It came back.
        AddField("Song", "stars", CounterField()),
        RemoveField("Song", "stars"),
        # It was no counter, so that a number without a field is not its.
        AddField("Song", "downloads", IntegerField()),
        RemoveField("Song", "downloads"),
    ]
"""


@pytest.fixture(autouse=True)
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    package = tmp_path / "renaming_migrations"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "0001_names.py").write_text(MIGRATION)
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"testapp": package.name}
    for kept in (upkeep._operations, upkeep._renames):
        kept.cache_clear()
    yield
    for kept in (upkeep._operations, upkeep._renames):
        kept.cache_clear()


@pytest.mark.parametrize("name", ["heard", "played"])
def test_slots_are_folded_into_the_field_by_migrate(name: str) -> None:
    song = Song.objects.create(plays=1)
    SlottedCounter.objects.increment(song, name, 5)
    song.plays.increment(2)
    call_command("migrate", "django_counters", verbosity=0)
    assert SlottedCounter.objects.value(song, "plays") == 8
    assert SlottedCounter.objects.value(song, name) == 0


def test_a_rollup_folds_what_comes_later() -> None:
    """From a process that runs the code of before."""
    song = Song.objects.create(plays=1)
    SlottedCounter.objects.increment(song, "heard", 5)
    roll_up()
    assert Song.objects.values_list("plays", flat=True).get() == 6
    assert SlottedCounter.objects.value(song, "heard") == 0


@pytest.mark.parametrize("name", ["seen", "heard.plays"])
def test_a_counter_without_a_field_is_left_alone(name: str) -> None:
    song = Song.objects.create()
    SlottedCounter.objects.increment(song, name, 5)
    call_command("migrate", "django_counters", verbosity=0)
    roll_up()
    assert SlottedCounter.objects.value(song, name) == 5
    assert SlottedCounter.objects.value(song, "plays") == 0


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("label", ["testapp.Article.seen", "testapp.Article.views"])
def test_what_waits_in_redis_lands_in_the_field(label: str) -> None:
    """Also in one that is not counted in Redis any more."""
    article = Article.objects.create(reads=1, shares=1)
    pending = pending_in("default", 10, "default")
    pending.send(pending.add({f"{label} {article.pk}": Delta(article.pk, 5)}, -1))
    assert flush().quarantined == {}
    assert not CounterIncident._base_manager.exists()
    expected = (6, 1) if label.endswith("seen") else (1, 6)
    assert Article.objects.values_list("reads", "shares").get() == expected


def test_what_is_left_of_a_field_that_was_removed_is_found_before_and_after_a_rollup(
    django_assert_num_queries: Any,
) -> None:
    songs = [Song.objects.create() for _ in range(2)]
    for song in songs:
        for name in ("heat", "stars", "downloads"):
            SlottedCounter.objects.increment(song, name, 5)
    for _ in range(2):
        # The kinds of records, and what is left.
        with django_assert_num_queries(2):
            assert [one.name for one in strangers("default")] == ["heat"]
        (found,) = (one for one in examine() if one.subject == "testapp.song.heat")
        assert found.needed
        assert found.action.startswith(f"the field is gone: {found.command} drops")
        assert found.action.endswith("10 in 2 rows")
        roll_up()
    eval(found.command, {"SlottedCounter": SlottedCounter})
    assert [*strangers("default")] == []
    assert SlottedCounter.objects.value(songs[0], "downloads") == 5
