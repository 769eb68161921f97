"""Regions of tests: each is a database of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connections, models
from django.db.models import F
from django.test import override_settings

from django_counters.contrib.regions.fencing import Fenced, fence
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.publishing import Exchanged, publish
from django_counters.contrib.regions.pulling import pull
from django_counters.contrib.regions.reading import value
from django_counters.contrib.regions.sql import SqlRegions
from django_counters.contrib.regions.transfers import transfer
from django_counters.models import (
    Counter,
    CounterBatch,
    CounterPosition,
    CounterShard,
    CounterSource,
)
from django_counters.stores.sql.positions import SqlPositions
from django_counters.testing import override_counters
from django_counters.types import Result

DATABASES = {"eu": "default", "us": "other"}
#: The addresses of those that are reached over HTTP.
REACHED: dict[str, str] = {}
#: All that a backup has of regional counters.
TABLES: tuple[type[models.Model], ...] = (
    Counter,
    CounterShard,
    CounterRegion,
    CounterPosition,
    CounterBatch,
    CounterSource,
)
Backup = list[tuple[type[models.Model], list[models.Model]]]


class Region:
    """What one region does, with its own settings.

    Attributes:
        peers: the databases of those that it knows, by their names.
    """

    def __init__(self, name: str, databases: Mapping[str, str] = DATABASES) -> None:
        self.name = name
        self.using = databases[name]
        self.peers = {other: alias for other, alias in databases.items() if other != name}

    def settings(self) -> AbstractContextManager[object]:
        """A block in which this process is in this region."""
        peers = {name: REACHED.get(name, alias) for name, alias in self.peers.items()}
        return override_settings(COUNTERS_REGION=self.name, COUNTERS_REGIONS=peers)

    def within(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Make a call in this region."""
        with self.settings():
            return call(*args, using=self.using, **options)

    def count(self, key: str, by: int = 1) -> None:
        self.within(Counter.objects.increment, key, by)

    def sell(self, key: str, by: int = 1) -> None:
        self.within(Counter.objects.decrement, key, by)

    def send(self, key: str, amount: int, to: Region, token: str | None = None) -> Result:
        done: Result = self.within(transfer, key, amount, to=to.name, token=token)
        return done

    def publish(self) -> Exchanged:
        done: Exchanged = self.within(publish)
        return done

    def pull(self) -> dict[str, Exchanged]:
        done: dict[str, Exchanged] = self.within(pull)
        return done

    def fence(self, *, restored: bool | None = None) -> Fenced:
        done: Fenced = self.within(fence, restored=restored)
        return done

    def value(self, key: str, region: str | None = None) -> int:
        found: int = (
            self.within(value, key, region=region)
            if region
            else self.within(Counter.objects.value, key)
        )
        return found

    def values(self, keys: Sequence[str]) -> list[int]:
        """The same of several, in one visit: each one reads the settings of the region."""
        with self.settings():
            return [Counter.objects.value(key, using=self.using) for key in keys]

    def pass_time(self, seconds: float) -> None:
        """Let all that was done in this region be longer ago."""
        rows = CounterPosition.objects.using(self.using)
        rows.update(moved_at=F("moved_at") - timedelta(seconds=seconds))

    def backup(self) -> Backup:
        return [(table, list(table._base_manager.using(self.using).all())) for table in TABLES]

    def restore(self, backup: Backup, *, elsewhere: bool = False) -> None:
        """Put back all that was there. The server of a test has one life: that of before is named
        otherwise, wherever it is written down. ``elsewhere``: as if it was another server."""
        for table, rows in backup:
            table._base_manager.using(self.using).all().delete()
            table._base_manager.using(self.using).bulk_create(rows)
        ours = {"source": f"region {self.name}"}
        for alias in (self.using, *self.peers.values()):
            lives = CounterPosition.objects.using(alias).filter(**ours)
            for life in lives.exclude(timeline__in=("", "closed")):
                history, _, _ = life.timeline.rpartition(" ")
                former = f"{'another history' if elsewhere else history} before".lstrip()
                lives.filter(part=life.part).update(timeline=former)


EU, US = Region("eu"), Region("us")


def says(life: str) -> Callable[[], str]:
    """A server of which that is the life."""
    return lambda: life


@pytest.fixture(name="regional", autouse=True)
def _regional(keeps_regions: None) -> Iterator[None]:
    """Namespaces of each kind, and one that is counted in its region alone."""
    with (
        override_settings(COUNTERS_REGION="eu"),
        override_counters(
            likes={"REGIONAL": True},
            hits={"REGIONAL": True, "STRATEGY": "sharded"},
            sales={"REGIONAL": True, "STRATEGY": "ledger"},
            stock={"REGIONAL": True, "FLOOR": 0},
            seats={"REGIONAL": True, "FLOOR": 0, "STRATEGY": "sharded", "TOP_UP": 10},
            plain={},
        ),
    ):
        yield


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, what: Callable[..., Any], using: str, act: Callable[[], object]
) -> None:
    """Do something just before the next call of a method of the stores of one database."""
    owner = SqlPositions if what.__qualname__.startswith("SqlPositions") else SqlRegions
    todo = [act]

    def called(self: Any, *args: Any, **options: Any) -> Any:
        if todo and self._session.using == using:
            todo.pop()()
        return what(self, *args, **options)

    monkeypatch.setattr(owner, what.__name__, called)


@contextmanager
def further(alias: str, **changes: object) -> Iterator[None]:
    """A further database that can be declared as that of a region: like the first one, but for
    some settings."""
    made = connections["default"].copy(alias)
    made.settings_dict.update(changes)
    connections[alias] = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "DATABASES", {**settings.DATABASES, alias: made.settings_dict})
        try:
            yield
        finally:
            made.close()
            del connections[alias]


def exchange(*regions: Region) -> None:
    """Publish and copy until nothing is new."""
    for region in regions:
        region.publish()
    for region in regions:
        for done in region.pull().values():
            assert not done.problem
