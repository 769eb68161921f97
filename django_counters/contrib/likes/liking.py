"""Who counts: toggle it, and read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections, models, router
from django.db.models import Q

from django_counters import clock
from django_counters.contrib.likes.condition import OncePerActor
from django_counters.contrib.likes.errors import UnsupportedActors
from django_counters.contrib.likes.models import CounterActor
from django_counters.errors import Contention, InvalidDelta, InvalidMoment
from django_counters.event import Event, Who, actor_of
from django_counters.measure import Measure
from django_counters.options import is_integer
from django_counters.reading import check_keys
from django_counters.registry import registry
from django_counters.stores.sql.session import Session
from django_counters.tables.schema import COUNTERS
from django_counters.twins import alters_data, twin
from django_counters.types import Result
from django_counters.write.changes import Change, Ref
from django_counters.write.pipeline import change
from django_counters.write.records import native_of, ref_to

if TYPE_CHECKING:
    from django_counters.fields.columns import CounterAttribute
    from django_counters.fields.values import Counting

# How often a row may come and go concurrently, until `toggle` gives up.
_TURNS = 20
# How many keys one statement asks for.
_KEYS = 500
MOST = 1_000


class Toggled(NamedTuple):
    """The result of `toggle`.

    Attributes:
        has: whether the actor counts now.
        result: the new value.
    """

    has: bool
    result: Result


class Actor(NamedTuple):
    """An actor who has counted.

    Attributes:
        who: the text that identifies the actor.
        at: when the actor was last counted.
    """

    who: str
    at: datetime

    @property
    def cursor(self) -> str:
        """Return the argument ``before`` of `actors` for the next page."""
        return f"{self.at.isoformat()} {self.who}"


@alters_data
def toggle(counter: str | Counting | Ref, who: Who, *, using: str | None = None) -> Toggled:
    """Count an actor who doesn't count, else take the count back.

    ``has, result = likes.toggle(post.likes, user)``. The new value is set on the instance. Of two
    concurrent calls each has an effect: one waits for the other.

    Raises:
        UnsupportedActors: the counter declares no ``once``.
        InvalidDelta: it has a cool-down, so nothing is taken back.
        Contention: others did the same for the same actor again and again.
        InvalidActor, UnsavedInstance, RecordMissing, and those of ``increment``.
    """
    ref = ref_to(counter, using)
    if _condition(ref.measure, ref.label).time is not None:
        reason = f"{ref.label} has a cool-down, so nothing is taken back"
        raise InvalidDelta(delta=-1, reason=reason)
    for _ in range(_TURNS):
        for by in 1, -1:
            result = change(Change(ref, by, event=Event(who=who)))
            if not result.replayed:
                if not isinstance(counter, str | Ref) and result.value is not None:
                    counter.show(result.value)
                return Toggled(by > 0, result)
    raise Contention(key=ref.label, attempts=_TURNS)


atoggle = twin(toggle)


def has(counter: str | Counting | Ref, who: Who, *, using: str | None = None) -> bool:
    """Return whether an actor counts; with a cool-down, whether it isn't over.

    `has_many` asks for a page of counters in one query.

    Raises:
        UnsupportedActors: the counter declares no ``once``.
        InvalidActor: this isn't an actor.
    """
    ref = ref_to(counter, using, reads=True)
    return bool(_counted(ref.measure, {ref.text: ref.text}, who, ref.using, ref.label))


ahas = twin(has)


def has_many(
    counters: Iterable[object],
    who: Who,
    *,
    field: CounterAttribute | None = None,
    using: str | None = None,
) -> set[Any]:
    """Return which of some counters an actor has counted, in one query per namespace or field.

    ``liked = likes.has_many(posts, request.user, field=Post.likes)`` are primary keys;
    ``likes.has_many(["likes:post:5", "likes:post:6"], user)`` are keys.

    Args:
        counters: keys; with ``field``, records or their primary keys.
        who: the actor.
        field: the field of the records.
        using: the database.

    Raises:
        UnsupportedActors: a namespace or the field declares no ``once``.
        InvalidActor: this isn't an actor.
    """
    if field is not None:
        alias = using or router.db_for_read(field.model)
        place = field.field.declared()
        keys = _of_records(field, counters, alias)
        return _counted(place.measure, keys, who, alias, place.table.label)
    alias = COUNTERS.reading(using)
    groups: dict[Measure | None, dict[str, object]] = {}
    for key in check_keys(counters):
        groups.setdefault(registry.policy(key).measure, {})[key] = key
    return {
        key
        for measure, group in groups.items()
        for key in _counted(measure, group, who, alias, next(iter(group)))
    }


ahas_many = twin(has_many)


def actors(
    counter: str | Counting | Ref,
    *,
    limit: int = 20,
    before: str | None = None,
    using: str | None = None,
) -> list[Actor]:
    """Return who has counted a counter, the last one first: ``[Actor(who, at)]``.

    Args:
        counter: its key, or the value of a field.
        limit: how many, up to 1,000.
        before: the ``cursor`` of the last one of the page before.
        using: the database.

    Raises:
        UnsupportedActors: the counter declares no ``once``.
        InvalidMoment: ``before`` isn't a cursor.
        ValueError: ``limit`` isn't an integer from 1 to 1,000.
    """
    if not is_integer(limit, 1, MOST):
        raise ValueError(f"limit is an integer from 1 to {MOST}, not {limit!r}")
    ref = ref_to(counter, using, reads=True)
    rows = _rows(ref.measure, ref.using, ref.label).filter(key=ref.text)
    if before is not None:
        at, who = _parsed(before)
        rows = rows.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(actor__lt=who))
    page = rows.order_by("-created_at", "-actor").values_list("actor", "created_at")[:limit]
    with Session(ref.using).translated():
        return [Actor(who, at) for who, at in page]


aactors = twin(actors)


def _condition(measure: Measure | None, label: str) -> OncePerActor:
    condition = measure.condition if measure else None
    if not isinstance(condition, OncePerActor):
        raise UnsupportedActors(key=label)
    return condition


def _rows(measure: Measure | None, using: str, label: str) -> models.QuerySet[CounterActor]:
    _condition(measure, label)
    stored = registry.measures(using).find(measure.name) if measure else None
    rows = CounterActor._base_manager.using(using)
    return rows.none() if stored is None else rows.filter(measure_id=stored.id)


def _counted(
    measure: Measure | None, keys: Mapping[str, object], who: Who, using: str, label: str
) -> set[Any]:
    """Return the values of ``keys`` whose counters an actor has counted and may not count again."""
    rows = _rows(measure, using, label).filter(actor=actor_of(who))
    time = _condition(measure, label).time
    if time is not None:
        rows = rows.filter(created_at__gt=clock.shown(clock.utc() - time))
    counted: set[Any] = set()
    texts = list(keys)
    with Session(using).translated():
        for start in range(0, len(texts), _KEYS):
            page = rows.filter(key__in=texts[start : start + _KEYS])
            counted.update(keys[key] for key in page.values_list("key", flat=True))
    return counted


def _of_records(
    field: CounterAttribute, records: Iterable[object], alias: str
) -> dict[str, object]:
    """Return the primary keys of records by the keys of the rows that have the column."""
    owned: dict[str, object] = {}
    keys: dict[object, object] = {}
    for record in records:
        if isinstance(record, models.Model):
            owned[field.field.ref(record, alias).text] = record.pk
        else:
            keys[native_of(field.model, record, alias)] = record
    pk: Any = field.field.model._meta.pk
    own: Any = field.model._meta.pk
    while own is not pk and getattr(own.remote_field, "parent_link", False):
        own = own.target_field
    if own is pk:
        return {**owned, **{str(native): key for native, key in keys.items()}}
    # A child with a key of its own.
    children = field.model._base_manager.using(alias).filter(pk__in=keys)
    for child, key in children.values_list("pk", pk.attname):
        native = pk.get_db_prep_value(key, connections[alias])
        owned[str(native)] = keys[native_of(field.model, child, alias)]
    return owned


def _parsed(cursor: object) -> tuple[datetime, str]:
    at, _, who = cursor.partition(" ") if isinstance(cursor, str) else ("", "", "")
    try:
        return clock.shown(clock.meant(datetime.fromisoformat(at)).astimezone(UTC)), actor_of(who)
    except (ValueError, OverflowError) as error:
        raise InvalidMoment(moment=cursor, reason="it isn't a cursor of actors()") from error
