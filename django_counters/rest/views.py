"""The views of counters: one, many, and all of a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, ClassVar
from uuid import UUID

from django.db import router
from django.http import HttpResponseBase
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from rest_framework import exceptions as drf
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from django_counters import clock
from django_counters.errors import CounterUnavailable
from django_counters.event import Event, event_of
from django_counters.features import absent_app
from django_counters.models import Counter
from django_counters.querysets import CounterQuerySet
from django_counters.reading import readings_of
from django_counters.registry import registry
from django_counters.rest import actors, bodies, problems
from django_counters.rest.base import CounterView, answer_once, iso, reading_body
from django_counters.rest.permissions import MayDecrement, MayIncrement, MayList, MayRead
from django_counters.rest.targets import NamedTarget, OfRecord, Target, named, told
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.strategies.declaring import MAX_AGE
from django_counters.types import Reading, Result, key_range, namespace_of, why_no_key
from django_counters.write import pipeline

# One counter.


@bodies.described("read", bodies.ReadingAnswer, bodies.KEY)
class ReadView(CounterView):
    """Read a counter, from a cache if it has one."""

    may = MayRead
    exact: ClassVar[bool] = False

    def get(self, request: Request, key: str) -> HttpResponseBase:  # noqa: ARG002
        """As old as Cache-Control says, at most; `/exact` misses nothing before `as_of`."""
        target = self.target(key)
        reading = target.read(exact=self.exact)
        lasts = "no-cache" if self.exact else f"max-age={int(target.max_age)}"
        return self.answered(target, reading_body(key, reading), reading.value, lasts)

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Keys may have slashes, so this also gets the routes of apps that aren't installed."""
        _key, slash, action = kwargs["key"].rpartition("/")
        if slash and not self.exact and absent_app(lambda feature: action in feature.actions):
            raise NotFound("There is no such route.")
        return super().http_method_not_allowed(request, *args, **kwargs)


@bodies.described("exact", bodies.ReadingAnswer, bodies.KEY)
class ExactView(ReadView):
    """Read the exact value of a counter."""

    exact = True


class ChangeView(CounterView):
    """``POST counters/{key}/increment`` and ``/decrement``."""

    sign: ClassVar[int]

    def post(self, request: Request, key: str) -> Response:
        """By one, if no `by` is given. The value stays within its floor and ceiling."""
        target = self.target(key)
        asked = self.checked(bodies.ChangeBody)
        by = self.sign * asked.pop("by")
        event = actors.event_of_change(request, self, [target], asked, takes=self.sign < 0)
        self.admit_changes({key: (target, by)}, {key: event})

        def work(token: UUID | None) -> dict[str, Any]:
            return change_body(target, by, target.change(by, token, event))

        whole = {"by": by, **told(event)}
        # Outside of a transaction, only named counters count once with a token.
        resumes = isinstance(target, NamedTarget)
        return answer_once(request, whole, work, target.alias, joins=target.joins, resumes=resumes)


@bodies.described(
    "increment", bodies.ChangeAnswer, bodies.KEY, bodies.once(), body=bodies.ChangeBody
)
class IncrementView(ChangeView):
    """Add to a counter."""

    may = MayIncrement
    sign = 1


@bodies.described(
    "decrement", bodies.ChangeAnswer, bodies.KEY, bodies.once(), body=bodies.ChangeBody
)
class DecrementView(ChangeView):
    """Take from a counter."""

    may = MayDecrement
    sign = -1


def change_body(target: Target, by: int, result: Result) -> dict[str, Any]:
    """The answer to a change. The value is None where it is not known."""
    known = "exact" if target.joins else "cached"
    return {
        "key": target.key,
        "value": result.value,
        "applied": by,
        "as_of": iso(clock.utc()),
        "consistency": "unknown" if result.value is None else known,
        # A token that Redis knows is that of this request, which was not answered yet.
        "replayed": result.replayed and target.joins,
    }


# Many counters: all or none are changed, and the known ones are read.

Changes = Mapping[str, tuple[Target, int]]


@bodies.described("read_many", bodies.ReadManyAnswer, body=bodies.ReadManyBody)
class ReadManyView(CounterView):
    """Read up to 500 counters."""

    may = MayRead

    def post(self, request: Request) -> Response:  # noqa: ARG002
        """Unknown and forbidden counters are listed alike."""
        asked = self.checked(bodies.ReadManyBody)
        keys = list(dict.fromkeys(asked["keys"]))
        targets = self.visible(keys)
        found = readings(targets, exact=asked["consistency"] == "exact")
        body = {
            "counters": [reading_body(key, found[key]) for key in keys if key in found],
            "unknown": [key for key in keys if key not in found],
        }
        return Response(body, headers={"Cache-Control": "no-store"})


def readings(targets: Mapping[str, Target], *, exact: bool) -> dict[str, Reading]:
    """The readings by key, in few steps. Leaves out a record that was deleted meanwhile.

    Raises:
        CounterUnavailable: an exact value cannot be read.
    """
    keys = [key for key, target in targets.items() if isinstance(target, NamedTarget)]
    found = readings_of(keys) if exact else _cached(keys)
    for key, reading in found.items() if exact else ():
        if reading.consistency != "exact":
            raise CounterUnavailable(using=registry.policy(key).recipe.cache, reason="no answer")
    groups: dict[str, list[OfRecord]] = {}
    for target in targets.values():
        if isinstance(target, OfRecord):
            groups.setdefault(target.exposed.label, []).append(target)
    for group in groups.values():
        found.update(_of_records(group, exact=exact))
    return found


def _cached(keys: list[str]) -> dict[str, Reading]:
    alias = router.db_for_write(Counter)
    inside: list[str] = []
    groups: dict[tuple[Outside, float], list[str]] = {}
    for key in keys:
        policy = registry.policy(key)
        strategy = registry.outside(policy.recipe, NAMED, alias)
        group = groups.setdefault((strategy, policy.max_age), []) if strategy else inside
        group.append(key)
    found = readings_of(inside)
    for (strategy, max_age), group in groups.items():
        found.update({str(key): one for key, one in strategy.readings(group, max_age).items()})
    return found


def _of_records(group: list[OfRecord], *, exact: bool) -> dict[str, Reading]:
    exposed = group[0].exposed
    alias = group[0].alias
    field: Any = exposed.field
    strategy = registry.outside(field.recipe, field.table, alias)
    if strategy is None or exact:
        return _exact_of_records(group)
    natives = {field._key(target.record, alias): target.key for target in group}
    return {natives[key]: found for key, found in strategy.readings(natives, MAX_AGE).items()}


def _exact_of_records(group: list[OfRecord]) -> dict[str, Reading]:
    exposed, as_of = group[0].exposed, clock.now()
    name = exposed.field.name
    # The queryset of the records may use another database than their model.
    alias = router.db_for_read(exposed.model, instance=group[0].record)
    own: Any = exposed.model._meta.pk
    keys = {getattr(target.record, own.attname): target.key for target in group}
    rows: CounterQuerySet[Any] = CounterQuerySet(exposed.model, using=alias).filter(pk__in=keys)
    return {
        keys[row.pk]: Reading(int(getattr(row, name)), 0, 0, as_of, "exact")
        for row in rows.with_counts(name)
    }


@bodies.described(
    "increment_many", bodies.ChangeManyAnswer, bodies.once(), body=bodies.ChangeManyBody
)
class IncrementManyView(CounterView):
    """Add to up to 500 counters."""

    may = MayIncrement

    def post(self, request: Request) -> Response:
        """All or none. No counter may be there twice."""
        asked = self.checked(bodies.ChangeManyBody)
        items = {item["key"]: item["by"] for item in asked.pop("counters")}
        targets = self.targets(list(items))
        changes = {key: (targets[key], by) for key, by in items.items()}
        event = actors.event_of_change(request, self, targets.values(), asked)
        # Only counters that count actors are told who is logged in.
        plain = event if "who" in asked else event_of(event.at, event.tags)
        events = {key: event if one.counts_actors else plain for key, one in targets.items()}
        joins, using = _place(targets, events)
        self.admit_changes(changes, events)

        def work(_: object) -> dict[str, Any]:
            counters = _changed(changes, events, using, joins=joins)
            return {"counters": counters, "replayed": False}

        # No counter can be mistaken for ``tags``, ``at`` or ``who``: amounts are numbers.
        given = told(event)
        whole = {**given, "counters": items} if given else items
        return answer_once(request, whole, work, using, joins=joins, mark=_mark)


def _mark(body: Mapping[str, Any], *, replayed: bool) -> Mapping[str, Any]:
    """Mark each counter of the answer, too."""
    counters = [{**part, "replayed": replayed} for part in body["counters"]]
    return {"counters": counters, "replayed": replayed}


def _place(targets: Mapping[str, Target], events: Mapping[str, Event]) -> tuple[bool, str]:
    """Whether one transaction changes these counters, and its database."""
    joining = {target.joins for target in targets.values()}
    places = {target.alias for target in targets.values()}
    recipes = {target.recipe for target in targets.values() if isinstance(target, NamedTarget)}
    records = sum(not isinstance(target, NamedTarget) for target in targets.values())
    # Cached counters need one step in Redis.
    whose = {event.who for event in events.values()}
    is_one_step = joining == {True} or len(recipes) + records == len(whose) == 1
    if len(joining) > 1 or len(places) > 1 or not is_one_step:
        says = "These counters are kept in several places, which no step changes together."
        raise problems.ApiError(400, "unsupported", says)
    return joining.pop(), places.pop()


def _changed(
    changes: Changes, events: Mapping[str, Event], using: str, *, joins: bool
) -> list[dict[str, Any]]:
    if not joins:
        values = _counted(changes, events, in_one_step=True)
    else:
        with pipeline.all_or_nothing(using):
            values = _counted(changes, events, in_one_step=False)
    return [change_body(target, by, values[key]) for key, (target, by) in changes.items()]


def _counted(
    changes: Changes, events: Mapping[str, Event], *, in_one_step: bool
) -> dict[str, Result]:
    """Change records first and all in one order, so that two requests cannot deadlock.

    Named counters that count actors come before others, also where nobody is named.
    """
    values: dict[str, Result] = {}
    groups: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for key in sorted(changes):
        target, by = changes[key]
        if isinstance(target, NamedTarget):
            groups[0 if in_one_step or target.counts_actors else 1][key] = by
        else:
            values[key] = target.change(by, None, events[key])
    for group in filter(None, groups):
        event = events[next(iter(group))]
        values.update(Counter.objects.increment_many(group, **event._asdict()))
    return values


# Lists, page by page. A page's cursor names its last row, after which the next one begins.

HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}


def url_after(request: Request, last: str) -> str:
    """The address of the page behind a row, which a text identifies."""
    cursor = urlsafe_base64_encode(last.encode())
    url: str = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
    return url


def text_of(cursor: str) -> str:
    """The text that a cursor stands for.

    Raises:
        ValidationError: it stands for none.
    """
    try:
        text = urlsafe_base64_decode(cursor).decode()
    except ValueError:
        text = ""
    if not text or "\0" in text or urlsafe_base64_encode(text.encode()) != cursor:
        raise no_cursor()
    return text


def no_cursor() -> drf.ValidationError:
    """The error of a cursor of another list."""
    return drf.ValidationError({"cursor": ["It is not of this list: follow 'next'."]})


@bodies.described("list", bodies.ListAnswer, bodies.ListQuery)
class ListView(CounterView):
    """Read the counters of a namespace, page by page."""

    may = MayList

    def get(self, request: Request) -> Response:
        """In the order of their keys, with exact values.

        A counter that was there before the first page and still is at the last one is in one of
        them, once. It is listed once it has a row: at once if the API has counted it, else from
        the next flush or rollup on.
        """
        given = bodies.queried(bodies.ListQuery, dict(request.query_params.lists()))
        self.admit_namespace(given["namespace"])
        start = f"{given['namespace']}:{given['prefix']}"
        # A permission of the project is asked once, for what all keys of the list begin with.
        self.admit(self.may(), named(start))
        after = text_of(given["cursor"]) if "cursor" in given else ""
        if after and not after.startswith(start):
            raise no_cursor()
        found = _keys(start, after, given["limit"] + 1)
        page, is_more = found[: given["limit"]], len(found) > given["limit"]
        # Of a row that was made by hand the API cannot speak.
        keys = [key for key in page if why_no_key(key) is None]
        as_of = clock.now()
        values = Counter.objects.values_of(keys)
        results = [reading_body(key, Reading(values[key], 0, 0, as_of, "exact")) for key in keys]
        body = {"next": url_after(request, page[-1]) if is_more else None, "previous": None}
        return Response({**body, "results": results}, headers=HEADERS)


def _keys(start: str, after: str, most: int) -> list[str]:
    """The first keys that begin with a text, after one of them. Reads no other rows."""
    _, end = key_range(namespace_of(start))
    rows = Counter.objects.filter(key__gte=start, key__lt=end)
    if after:
        rows = rows.filter(key__gt=after)
    keys = rows.order_by("key").values_list("key", flat=True)[:most]
    # They stand together. SQLite's LIKE would take A for a.
    return list(takewhile(lambda key: key.startswith(start), keys))
