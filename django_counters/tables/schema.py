"""The tables of the core: counters and their parts, ledger entries, and pages that landed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from django.apps import apps
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import connections, models, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.lookups import BuiltinLookup, IContains, IEndsWith, IExact, IStartsWith
from django.utils.translation import gettext_lazy as _

from django_counters import clock
from django_counters.features import features
from django_counters.measure import Kind, Measure
from django_counters.tables.total import TotalField, WideTotalField
from django_counters.types import KEY_LENGTH, key_range

if TYPE_CHECKING:
    _BinaryField = models.BinaryField[bytes, bytes]
    _CharField = models.CharField[str, str]
    _Lookup = BuiltinLookup[Any]
else:
    _BinaryField = models.BinaryField
    _CharField = models.CharField
    _Lookup = BuiltinLookup


# -- The digests that name rows.


class DigestField(_BinaryField):
    """The bytes of a digest. MySQL has no index of all of a BLOB: there they are a VARBINARY."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "mysql":
            return "varbinary(64)"
        return super().db_type(connection)


# -- Named counters: one row each, and the keys of all tables.


class KeyField(_CharField):
    """A text primary key that servers compare byte by byte.

    Every writer then locks rows in the same order, in any locale of the database, and one
    index serves both equality and prefixes. On MySQL it also keeps keys apart that differ by their
    case, or by spaces at the end.
    """

    def db_parameters(self, connection: BaseDatabaseWrapper) -> dict[str, str | None]:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        if connection.vendor == "mysql":
            is_mariadb = getattr(connection, "mysql_is_mariadb", False)
            parameters["collation"] = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        return parameters

    def db_type(self, connection: BaseDatabaseWrapper) -> str | None:
        if connection.vendor == "postgresql":
            # Django adds a second, pattern-matching index to types that start with "varchar".
            return f"character varying({self.max_length})"
        return super().db_type(connection)


class _AnyCase(_Lookup):
    """Compares without case, also where the collation of the column keeps cases apart."""

    def process_lhs(self, compiler: Any, connection: Any, lhs: Any = None) -> tuple[str, Any]:
        sql, params = super().process_lhs(compiler, connection, lhs)
        return _lowered(sql, connection), params

    def get_rhs_op(self, connection: Any, rhs: str) -> str:
        return super().get_rhs_op(connection, _lowered(rhs, connection))


def _lowered(sql: str, connection: BaseDatabaseWrapper) -> str:
    return f"LOWER({sql})" if connection.vendor == "mysql" else sql


for _lookup in (IContains, IEndsWith, IExact, IStartsWith):
    KeyField.register_lookup(type(_lookup.__name__, (_AnyCase, _lookup), {}))


class CounterColumns(models.Model):
    """The columns of a `Counter`."""

    key = KeyField(_("key"), max_length=KEY_LENGTH, primary_key=True)
    # Never indexed: PostgreSQL then updates the row within its page, without touching any index.
    value = TotalField(_("value"), default=0)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)
    # The part of the value that did not come through the ledger; NULL where nothing ever did.
    outside: WideTotalField = WideTotalField(  # type: ignore[misc]
        _("outside the ledger"), null=True, blank=True, default=None, editable=False
    )

    class Meta:
        abstract = True
        verbose_name = _("counter")
        verbose_name_plural = _("counters")
        permissions = [
            ("adjust_counter", _("Can adjust a counter")),
            ("increment_counter", _("Can increment a counter over HTTP")),
            ("decrement_counter", _("Can decrement a counter over HTTP")),
        ]

    def __str__(self) -> str:
        return str(self.key)


# -- Increments of named counters that wait for their rollup: a few rows each.


class ShardColumns(models.Model):
    """The columns of a `CounterShard`."""

    pk = models.CompositePrimaryKey("key", "shard")
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    shard = models.SmallIntegerField(_("shard"))
    value = models.BigIntegerField(_("value"), default=0)

    class Meta:
        abstract = True
        verbose_name = _("counter shard")
        verbose_name_plural = _("counter shards")

    def __str__(self) -> str:
        return f"{self.key} [{self.shard}]"


# -- Increments of counters of records that wait for their rollup: a few rows each.

RECORD_ID_LENGTH = 255
NAME_LENGTH = 100


class SlotColumns(models.Model):
    """The columns of a `SlottedCounter`."""

    pk = models.CompositePrimaryKey("record_type_id", "record_id", "name", "slot")
    record_type = models.ForeignKey(
        ContentType,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        verbose_name=_("record type"),
    )
    # The text of a primary key: that of an integer, a UUID, or any other.
    record_id = KeyField(_("record id"), max_length=RECORD_ID_LENGTH)
    name = KeyField(_("name"), max_length=NAME_LENGTH)
    slot = models.SmallIntegerField(_("slot"))
    count = models.BigIntegerField(_("count"), default=0)

    record = GenericForeignKey("record_type", "record_id")

    class Meta:
        abstract = True
        verbose_name = _("slotted counter")
        verbose_name_plural = _("slotted counters")
        # For the rollup: the amount that waits, and nothing else, in the order in which it is
        # folded.
        indexes = [
            models.Index(
                fields=["record_type", "name", "record_id"],
                condition=models.Q(slot__gte=0),
                name="counters_slots_that_wait",
            )
        ]

    def __str__(self) -> str:
        return f"{self.record_id} {self.name} [{self.slot}]"


# -- The ledger: one entry for each change, never altered, dropped as whole partitions.


class DeltaColumns(models.Model):
    """The columns of a `CounterDelta`."""

    class Kind(models.IntegerChoices):
        """The kind of an entry: an increment, or a correction."""

        INCREMENT = 0, _("increment")
        ADJUSTMENT = 1, _("adjustment")

    pk = models.CompositePrimaryKey("token", "created_at")
    token = models.UUIDField(_("token"))
    created_at = models.DateTimeField(_("created at"))
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    delta = models.BigIntegerField(_("delta"))
    kind = models.SmallIntegerField(_("kind"), choices=Kind.choices, default=Kind.INCREMENT)
    # The transaction that wrote the entry: the rollup goes by it.
    xid = models.BigIntegerField(_("transaction"))
    # The order in which entries were written: a rebase goes by it.
    seq = models.BigIntegerField(_("sequence number"))

    class Meta:
        abstract = True
        verbose_name = _("counter entry")
        verbose_name_plural = _("counter entries")

    def __str__(self) -> str:
        return f"{self.key} {self.delta:+}"

    def save(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Entries are appended, by `DeltaManager.append`."""
        raise TypeError("Entries of the ledger are written by CounterDelta.objects.append().")

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Entries stay. A wrong one is corrected by another one."""
        raise TypeError("Entries of the ledger stay; append one that corrects it.")


# -- Tokens that were used, by counters that have no ledger, and as texts.


class CounterToken(models.Model):
    """A token, its use, and the result of the call. Deleted when it may not be used again.

    Neither the token nor its scope is kept as text, only their digest.
    """

    digest = DigestField(_("digest"), primary_key=True)
    fingerprint = models.BinaryField(_("fingerprint of the call"))
    result = models.TextField(_("result"), blank=True)
    created_at = models.DateTimeField(_("created at"), db_index=True)

    class Meta:
        verbose_name = _("counter token")
        verbose_name_plural = _("counter tokens")

    def __str__(self) -> str:
        return bytes(self.digest).hex()


# -- Generations of Redis that are in the totals, and their last seen state.

SOURCE_LENGTH = 255


class CounterBatch(models.Model):
    """A generation of increments that is in the totals, written in the transaction that added it.

    The process that inserts its row applies it, and no other one. Pruned when no such generation
    may be applied any more.
    """

    generation = models.UUIDField(_("generation"), primary_key=True)
    slot = models.SmallIntegerField(_("slot"))
    source = models.CharField(_("source"), max_length=SOURCE_LENGTH)
    applied_at = models.DateTimeField(_("applied at"), db_index=True)
    counters = models.IntegerField(_("counters"))
    # Not a total of a counter: the incoming sum, even if a part of it did not fit.
    total = models.DecimalField(_("sum"), max_digits=40, decimal_places=0)

    class Meta:
        verbose_name = _("counter batch")
        verbose_name_plural = _("counter batches")

    def __str__(self) -> str:
        return str(self.generation)


class CounterSource(models.Model):
    """The last seen state of one slot of a source: it tells when Redis loses something.

    ``seen`` is the generation that was open then, ``timeline`` the history of the Redis that had
    it.
    """

    pk = models.CompositePrimaryKey("source", "slot")
    source = KeyField(_("source"), max_length=SOURCE_LENGTH)
    slot = models.SmallIntegerField(_("slot"))
    seen = models.CharField(_("generation seen"), max_length=32, blank=True)
    timeline = models.CharField(_("timeline"), max_length=40, blank=True)
    seen_at = models.DateTimeField(_("seen at"))

    class Meta:
        verbose_name = _("counter source")
        verbose_name_plural = _("counter sources")

    def __str__(self) -> str:
        return f"{self.source} [{self.slot}]"


# -- How far sources that are read in order are in the totals.

PART_LENGTH = 255
POSITION_LENGTH = 255


class CounterPosition(models.Model):
    """How far one part of a source is in the totals, moved in the transaction that adds to them.

    Pages that land in order need no row each: the process that moves the position from the begin of
    the page to its end has landed it, and no other one. ``position`` is a text of the source; it is
    empty before the first page. ``timeline`` is the history that it means something in: a position
    of another one does not move. Some rows stay empty: they say when something was done.
    """

    pk = models.CompositePrimaryKey("source", "part")
    source = KeyField(_("source"), max_length=SOURCE_LENGTH)
    part = KeyField(_("part"), max_length=PART_LENGTH)
    position = models.CharField(_("position"), max_length=POSITION_LENGTH, blank=True)
    timeline = models.CharField(_("timeline"), max_length=POSITION_LENGTH, blank=True)
    moved_at = models.DateTimeField(_("moved at"))

    class Meta:
        verbose_name = _("counter position")
        verbose_name_plural = _("counter positions")

    def __str__(self) -> str:
        return f"{self.source} [{self.part}] {self.position}"


# -- What should not have happened, and was found out.


class CounterIncident(models.Model):
    """Something that a person has to look at. Nothing is repaired silently."""

    class Kind(models.TextChoices):
        """The kinds of incidents."""

        DRIFT = "drift", _("a value differs from its entries")
        FENCED = "fenced", _("the ledger was restored elsewhere")
        OVERFLOW = "overflow", _("a total would not fit")
        LOST = "lost", _("increments were lost by Redis")
        HISTORY = "history", _("Redis was started again, or another one took over")
        QUARANTINED = "quarantined", _("an amount could not be landed")
        CONFLICT = "conflict", _("one token stood for several changes")
        UNKNOWN = "unknown", _("the outcome of an increment is not known")
        AUDIT = "audit", _("an adjustment was changed or is missing")

    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices)
    subject = models.CharField(_("subject"), max_length=255)
    detail = models.JSONField(_("detail"), default=dict)
    found_at = models.DateTimeField(_("found at"), auto_now_add=True, db_index=True)

    class Meta:
        verbose_name = _("counter incident")
        verbose_name_plural = _("counter incidents")

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"


# -- The kept facts of partitions of the ledger, also when they are gone.


class CounterPartition(models.Model):
    """A partition that takes no more entries: how many it has, and their sum.

    Sealed when no token can belong to it any more and all of it is rolled up; dropped when it is
    past its retention. Sums of all its entries are read from the archive, and the range of its
    transactions says whether a follower needs it: so most reads lock no sealed partition.
    """

    name = models.CharField(_("name"), max_length=63, primary_key=True)
    since = models.DateTimeField(_("since"))
    until = models.DateTimeField(_("until"))
    entries = models.BigIntegerField(_("entries"))
    delta_sum = models.DecimalField(_("sum"), max_digits=40, decimal_places=0)
    # Of its entries above the fence, which was that when it was sealed; NULL where it has none.
    fence = models.BigIntegerField(_("fence"), null=True, blank=True)
    first_xid = models.BigIntegerField(_("first transaction"), null=True, blank=True)
    last_xid = models.BigIntegerField(_("last transaction"), null=True, blank=True)
    last_seq = models.BigIntegerField(_("last sequence number"), null=True, blank=True)
    sealed_at = models.DateTimeField(_("sealed at"))
    dropped_at = models.DateTimeField(_("dropped at"), null=True, blank=True)

    class Meta:
        verbose_name = _("counter partition")
        verbose_name_plural = _("counter partitions")

    def __str__(self) -> str:
        return str(self.name)


class CounterArchive(models.Model):
    """What one counter has in one sealed partition, or in all dropped ones (no partition)."""

    pk = models.CompositePrimaryKey("partition", "key")
    partition = models.CharField(_("partition"), max_length=63, blank=True)
    key = KeyField(_("key"), max_length=KEY_LENGTH)
    entries = models.BigIntegerField(_("entries"))
    delta_sum = models.DecimalField(_("sum"), max_digits=40, decimal_places=0)

    class Meta:
        verbose_name = _("counter archive")
        verbose_name_plural = _("counter archives")

    def __str__(self) -> str:
        return f"{self.key} {self.delta_sum}"


# -- How far the ledger is rolled up.

TOKEN_WINDOW = timedelta(hours=48)


def beginning() -> datetime:
    """Before all that is counted."""
    return clock.shown(datetime(1970, 1, 1, tzinfo=UTC))


class CounterHorizon(models.Model):
    """One row: entries before the horizon are in the totals, all others are the tail.

    An entry belongs to the tail if its ``xid`` is not below the horizon, and its ``seq`` is above
    the fence, which only a rebase moves.
    """

    horizon = models.BigIntegerField(_("horizon"), default=0)
    fence = models.BigIntegerField(_("fence"), default=0)
    # The server whose transactions are numbered so; NULL where it does not say who it is.
    cluster = models.BigIntegerField(_("cluster"), null=True, blank=True)
    # Entries committed before are in the totals.
    as_of = models.DateTimeField(_("as of"), default=beginning)
    # No entry of the tail has a token of before.
    tail_since = models.DateTimeField(_("tail since"), default=beginning)
    # What `as_of` becomes as soon as the horizon reaches the mark.
    mark_xid = models.BigIntegerField(_("mark"), default=0)
    mark_at = models.DateTimeField(_("time of the mark"), default=beginning)
    rolled_up_at = models.DateTimeField(_("rolled up at"), default=beginning)
    token_window = models.DurationField(_("window of tokens"), default=TOKEN_WINDOW)

    class Meta:
        verbose_name = _("counter horizon")
        verbose_name_plural = _("counter horizons")

    def __str__(self) -> str:
        return str(self.horizon)


def horizon_of(using: str) -> CounterHorizon:
    """Return the state of the ledger of a database; its beginning if there is no row yet."""
    return CounterHorizon._base_manager.using(using).first() or CounterHorizon()


# -- The tables that are counted with, for those who stand below their models.
# `Counter`, `SlottedCounter` and `CounterDelta` have managers that need the whole core, so these
# models stand above it. Their columns stand here, as abstract models.

_Columns = TypeVar("_Columns", bound=models.Model)


class Standing(Generic[_Columns]):
    """A table by the name of its model, which Django knows as soon as it has loaded all models."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def model(self) -> type[_Columns]:
        """The model. Code of the core must not use its manager."""
        model: type[_Columns] = apps.get_model("django_counters", self._name)
        return model

    def rows(self, using: str) -> models.QuerySet[_Columns]:
        """All rows in a database."""
        return self.model._base_manager.using(using)

    def of_namespace(self, name: str, using: str) -> models.QuerySet[_Columns]:
        """All rows of a namespace. SQLite's ``startswith`` would take A for a."""
        first, end = key_range(name)
        return self.rows(using).filter(key__gte=first, key__lt=end)

    def writing(self, using: str | None = None, **hints: Any) -> str:
        """The database that is written to, unless one is named."""
        return using or router.db_for_write(self.model, **hints)

    def reading(self, using: str | None = None, **hints: Any) -> str:
        """The database that is read from, unless one is named."""
        return using or router.db_for_read(self.model, **hints)

    def stands_in(self, using: str) -> bool:
        """Whether the table belongs into a database."""
        return router.allow_migrate_model(using, self.model)


COUNTERS: Standing[CounterColumns] = Standing("Counter")
SLOTS: Standing[SlotColumns] = Standing("SlottedCounter")
ENTRIES: Standing[DeltaColumns] = Standing("CounterDelta")


def databases() -> list[str]:
    """Return all databases of this site that may have the tables of counters."""
    others = {alias for one in features() for alias in one.foreign_databases()}
    return [alias for alias in connections if alias not in others and COUNTERS.stands_in(alias)]


# -- Measures: how the counters of a namespace or a field are counted by period and by actor.

MEASURE_LENGTH = 255
SECRET_LENGTH = 32


def new_secret() -> bytes:
    """A key for hashes. It is random: a key made of SECRET_KEY would change with that."""
    return secrets.token_bytes(SECRET_LENGTH)


class CounterMeasure(models.Model):
    """A namespace or a field with ``per``. Its cells are read by what this row says.

    ``zone`` is the time zone whose clocks begin its periods: that of the settings when the row was
    made. ``tags`` are the names of its tags in the order in which cells have their values: a new
    one comes last, and none is taken out. ``periods``: since when each is counted by, as an ISO
    moment; None for those that were declared first. ``secret`` is the key of the hashes that stand
    for actors, and stays: with another one, each of them would be counted twice.
    """

    id = models.AutoField(primary_key=True)
    name = KeyField(_("name"), max_length=MEASURE_LENGTH, unique=True)
    zone = models.CharField(_("time zone"), max_length=64)
    tags = models.JSONField(_("tags"), default=list)
    periods = models.JSONField(_("periods"), default=dict)
    secret = models.BinaryField(_("secret"), default=new_secret, editable=False)
    made_at = models.DateTimeField(_("made at"), auto_now_add=True)

    class Meta:
        verbose_name = _("counter measure")
        verbose_name_plural = _("counter measures")

    def __str__(self) -> str:
        return str(self.name)


# -- The common part of tables whose rows belong to a counter with a measure.
# A table says here whose rows it has. Jobs that delete them ask `OfCounter.tables`, and list none.

CELL_KEY_LENGTH = 255


class OfCounter(models.Model):
    """What belongs to one counter. It is deleted with the record of the counter.

    Attributes:
        of_kind: the kind of its rows, or of those that they are made of; None if they are of none.
    """

    of_kind: ClassVar[Kind | None] = None

    # Without a constraint: checking it would have every increment lock the row of the measure.
    measure = models.ForeignKey(
        CounterMeasure,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,
        verbose_name=_("measure"),
    )
    key = KeyField(_("key"), max_length=CELL_KEY_LENGTH)

    class Meta:
        abstract = True

    @classmethod
    def tables(cls) -> Iterator[type[Self]]:
        """All tables whose rows are such."""
        return (
            model for model in apps.get_models() if issubclass(model, cls) and not model._meta.proxy
        )

    @classmethod
    def of_keys(
        cls,
        measure: Measure | None,  # noqa: ARG003 - where rows are found in another way
        number: int,
        keys: Sequence[str],
        using: str,
    ) -> list[models.QuerySet[Self]]:
        """The rows of some keys of a measure, which has a number."""
        return [cls._base_manager.using(using).filter(measure_id=number, key__in=keys)]
