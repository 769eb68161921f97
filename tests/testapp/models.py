"""One model for each way in which a field can come to a table."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any, ClassVar

from django.db import models

from django_counters import (
    CachedCounterField,
    CounterField,
    CounterQuerySet,
    DecimalCounterField,
    IntegerCounterField,
)

# Of cached fields: the machine of a test may be busy, and a lost answer is another test. Seconds.
PATIENCE = 10


class Post(models.Model):
    title = models.CharField(max_length=100, default="", blank=True)
    views = CounterField()
    likes = CounterField(default=0, db_column="number_of_likes")

    objects = CounterQuerySet["Post"].as_manager()


class Product(models.Model):
    name = models.CharField(max_length=100, default="")
    stock = CounterField(strategy="exact", floor=0, ceiling=1000)


class Concert(models.Model):
    """Many buy at the same moment, and no seat twice."""

    seats = CounterField(strategy="slotted", floor=0)
    chairs = CounterField(strategy="slotted", floor=0, slots=4)


class Device(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    events = CounterField()


class Small(models.Model):
    hits = IntegerCounterField()


class DatabaseDefault(models.Model):
    hits = CounterField(db_default=7)


class Counted(models.Model):
    hits = CounterField()

    class Meta:
        abstract = True


class Page(Counted):
    title = models.CharField(max_length=100, default="")


class NewsPage(Page):
    shares = CounterField()


class Leaflet(Page):
    """A child with a key of its own."""

    code = models.CharField(max_length=10, primary_key=True)
    page = models.OneToOneField(Page, models.CASCADE, parent_link=True)


class ProxyPage(Page):
    class Meta:
        proxy = True


class Derived(models.Model):
    hits = CounterField()
    doubled = models.GeneratedField(
        expression=models.F("hits") * 2, output_field=models.BigIntegerField(), db_persist=True
    )

    objects: ClassVar[models.Manager[Derived]] = models.Manager()


class Song(models.Model):
    title = models.CharField(max_length=100, default="")
    plays = CounterField(strategy="slotted")
    stars = CounterField(strategy="slotted", slots=4)
    skips = CounterField()

    objects = CounterQuerySet["Song"].as_manager()


class Gadget(models.Model):
    """Its key is a UUID."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    beeps = CounterField(strategy="slotted")

    objects = CounterQuerySet["Gadget"].as_manager()


class Country(models.Model):
    """Its key is a text."""

    code = models.CharField(max_length=300, primary_key=True)
    visits = CounterField(strategy="slotted")

    objects = CounterQuerySet["Country"].as_manager()


class Tiny(models.Model):
    hits = IntegerCounterField(strategy="slotted")


class Track(models.Model):
    plays = CounterField(strategy="slotted")

    objects = CounterQuerySet["Track"].as_manager()


class BonusTrack(Track):
    """A child whose table has no column for the inherited counter."""

    shares = CounterField(strategy="slotted")

    objects: ClassVar[Any] = CounterQuerySet["BonusTrack"].as_manager()


class LiveTrack(BonusTrack):
    """A grandchild: three tables have a column each."""

    cheers = CounterField(strategy="slotted")

    objects: ClassVar[Any] = CounterQuerySet["LiveTrack"].as_manager()


class ProxyTrack(Track):
    objects: ClassVar[Any] = CounterQuerySet["ProxyTrack"].as_manager()

    class Meta:
        proxy = True


class Release(Track):
    """A child with a key of its own: that of its parent's row is another one."""

    code = models.CharField(max_length=20, primary_key=True)
    track = models.OneToOneField(Track, models.CASCADE, parent_link=True, related_name="+")

    objects: ClassVar[Any] = CounterQuerySet["Release"].as_manager()


class Lyrics(models.Model):
    """Its key is a relation."""

    song = models.OneToOneField(Song, models.CASCADE, primary_key=True)
    reads = CounterField(strategy="slotted")

    objects = CounterQuerySet["Lyrics"].as_manager()


class Moment(models.Model):
    """Its key has no one text that Python and the database agree on: it cannot have slots."""

    at = models.DateTimeField(primary_key=True)

    objects: ClassVar[models.Manager[Moment]] = models.Manager()


class Article(models.Model):
    """Counted in Redis, and beside it in the column."""

    title = models.CharField(max_length=100, default="")
    reads = CounterField(strategy="cached", timeout=PATIENCE)
    claps = CachedCounterField(timeout=PATIENCE)
    shares = CounterField()

    objects = CounterQuerySet["Article"].as_manager()


class Review(Article):
    """A child whose table has a cached counter of its own."""

    stars = CachedCounterField(timeout=PATIENCE)

    objects: ClassVar[Any] = CounterQuerySet["Review"].as_manager()


class Beacon(models.Model):
    """Its key is a UUID."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    pings = CachedCounterField(timeout=PATIENCE)

    objects = CounterQuerySet["Beacon"].as_manager()


class City(models.Model):
    """Its key is a text."""

    name = models.CharField(max_length=300, primary_key=True)
    trips = CachedCounterField(timeout=PATIENCE)

    objects = CounterQuerySet["City"].as_manager()


class Ticket(models.Model):
    """Its column ends at 32 bits, and without Redis it is not counted."""

    scans = IntegerCounterField(strategy="cached", on_redis_down="raise", timeout=PATIENCE)

    objects = CounterQuerySet["Ticket"].as_manager()


class Abstract(models.Model):
    """Its key is a relation to a record that has a cached counter, too."""

    article = models.OneToOneField(Article, models.CASCADE, primary_key=True)
    opens = CachedCounterField(timeout=PATIENCE)

    objects = CounterQuerySet["Abstract"].as_manager()


class Mixed(models.Model):
    """Counters beside Django's own fields of the same size."""

    big = models.BigIntegerField(default=0)
    big_too = models.BigIntegerField(default=0)
    small = models.IntegerField(default=0)
    small_too = models.IntegerField(default=0)
    counted = CounterField()
    cached = CachedCounterField(timeout=PATIENCE)
    small_counted = IntegerCounterField()

    objects: ClassVar[models.Manager[Mixed]] = models.Manager()


class Story(models.Model):
    """Its counters are counted by period and tag, each in another way."""

    per: ClassVar[dict[str, Any]] = {"per": ["hour", "day"], "tags": {"country": 3}}

    opens = CounterField(**per, floor=0)
    plays = CounterField(strategy="slotted", **per)
    reads = CounterField(strategy="cached", timeout=PATIENCE, **per)

    objects = CounterQuerySet["Story"].as_manager()


class Tune(models.Model):
    """Its counters are ranked, one in the row and one by way of Redis."""

    title = models.CharField(max_length=50)
    singer = models.ForeignKey(Story, models.CASCADE, null=True)
    hearts = CounterField(per=["hour"], tags={"country": 3}, top=["day", "week"])
    plays = CounterField(strategy="cached", timeout=PATIENCE, top=["day"], keep={"day": 90})


class Site(models.Model):
    """Counted by period and tag, in the row and in slots."""

    visits = CounterField(per=["hour", "day"], tags={"country": 5}, occurrences=["day"])
    downloads = CounterField(strategy="slotted", per=["day"], occurrences=["day"])

    objects: ClassVar[Any] = CounterQuerySet["Site"].as_manager()


class Talk(models.Model):
    """Its counters know how many distinct actors there were, each in another way."""

    seats = CounterField(unique=["day"])
    claps = CounterField(strategy="slotted", unique=["hour", "day"])
    views = CounterField(strategy="cached", timeout=PATIENCE, per=["day"], unique=["day"])
    plays = CounterField(
        per=["hour", "day"], tags={"country": 3}, unique=["day"], top=["day"], db_default=0
    )

    objects: ClassVar[Any] = CounterQuerySet["Talk"].as_manager()


class Sensor(models.Model):
    """Counted by period; its key is a UUID."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    ticks = CounterField(per=["day"])


class Shop(Site):
    """A child with a key of its own."""

    code = models.CharField(max_length=10, primary_key=True)
    site = models.OneToOneField(Site, models.CASCADE, parent_link=True)


class Note(models.Model):
    """Everybody counts once."""

    text = models.CharField(max_length=100, default="")
    likes = CounterField(once=True)
    stars = CounterField(strategy="slotted", once=True)
    claps = CounterField(once=True, per=["day"])
    waves = CounterField(strategy="slotted", once=True, per=["day"])
    reads = CounterField(once="30m")

    objects = CounterQuerySet["Note"].as_manager()


class Gem(models.Model):
    """The same, with a UUID as key, and room for seven."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    likes = CounterField(once=True, ceiling=7)
    stars = CounterField(strategy="slotted", once=True)


class Member(models.Model):
    """Has a quota."""

    requests = CounterField(ceiling={"month": 10})

    objects: ClassVar[Any] = CounterQuerySet["Member"].as_manager()


class Account(models.Model):
    """Its counters are amounts, in each of the ways in which a field can count."""

    name = models.CharField(max_length=100, default="", blank=True)
    balance = DecimalCounterField(places=2, floor=0, ceiling=Decimal("1000.00"))
    bonus = DecimalCounterField(places=2, approve_above=Decimal("5.00"), per=["day"])
    points = DecimalCounterField(places=3, strategy="slotted")
    energy = DecimalCounterField(places=4, strategy="cached", timeout=PATIENCE)
    limit = models.DecimalField(max_digits=9, decimal_places=2, default=0)

    objects: ClassVar[Any] = CounterQuerySet["Account"].as_manager()
