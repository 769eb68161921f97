"""What a request asks a series: the parameters of its address, and the steps that they mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from operator import methodcaller
from typing import Any, NamedTuple

from django.http import QueryDict
from rest_framework import exceptions as drf
from rest_framework import serializers

from django_counters.calendar import PERIODS
from django_counters.exceptions import InvalidPeriod, InvalidTags
from django_counters.measure import MOST_TAGS, TAG_LENGTH
from django_counters.read.series import Series, Splits
from django_counters.rest.bodies import Body, checker
from django_counters.rest.parameters import LAST_LENGTH, ZONE_LENGTH
from django_counters.rest.values import Moment, Several, Text, Word

WHERE = "where."
Step = Callable[[Any], Any]


class SeriesQuery(Body):
    """The parameters, but for those that begin with ``where.``."""

    per = Word(choices=PERIODS, required=False)
    last = Text(max_length=LAST_LENGTH, required=False)
    since = Moment(required=False)
    until = Moment(required=False)
    tz = Text(max_length=ZONE_LENGTH, required=False)
    by = Several(child=Text(max_length=TAG_LENGTH), max_length=MOST_TAGS, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "last" in attrs and ("since" in attrs or "until" in attrs):
            raise serializers.ValidationError({"last": ["Give either 'last' or 'since'."]})
        if "until" in attrs and "since" not in attrs:
            raise serializers.ValidationError({"until": ["It needs a 'since'."]})
        return attrs


class Question(NamedTuple):
    """What is asked for."""

    where: Mapping[str, list[str]]
    per: str | None = None
    last: int | str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tz: str | None = None
    by: tuple[str, ...] = ()

    @property
    def is_timed(self) -> bool:
        """Whether some time is said; else all that is kept is meant."""
        return not (self.per is None and self.last is None and self.since is None)

    @property
    def text(self) -> str:
        """The same for the same question."""
        return json.dumps(self._asdict(), sort_keys=True, default=datetime.isoformat)

    def put_to(self, series: Series) -> Series | Splits:
        """The series that is asked for. Asks no database.

        Raises:
            ValidationError: a parameter means nothing.
            UnsupportedSeries: the counter is not counted by period.
        """
        asked: Any = series
        for name, step in self._steps():
            with told_of(name):
                asked = step(asked)
        found: Series | Splits = asked
        return found

    def _steps(self) -> Iterator[tuple[str, Step]]:
        """By the parameter that is wrong where one cannot be taken."""
        if self.per is not None:
            yield "per", methodcaller("per", self.per)
        if self.last is not None:
            yield "last", methodcaller("last", self.last)
        if self.since is not None:
            yield "until", methodcaller("between", self.since, self.until)
        if self.tz is not None:
            yield "tz", methodcaller("tz", self.tz)
        for name, values in self.where.items():
            yield f"{WHERE}{name}", methodcaller("where", **{name: values})
        if self.by:
            yield "by", methodcaller("by", *self.by)


@contextmanager
def told_of(name: str) -> Iterator[None]:
    """A block in which it is this parameter that is wrong; without a name, all of them."""
    try:
        yield
    except (InvalidPeriod, InvalidTags) as error:
        raise drf.ValidationError({name or "non_field_errors": [str(error)]}) from error


def question_of(query: QueryDict) -> Question:
    """What the parameters of an address ask for.

    Raises:
        ValidationError: there is no such parameter, or something is wrong with one.
    """
    lists = dict(query.lists())
    where = {
        name.removeprefix(WHERE): lists.pop(name) for name in list(lists) if name.startswith(WHERE)
    }
    given = checker(SeriesQuery).run_validation(_single(lists))
    if given.get("last", "").isdecimal():
        given["last"] = int(given["last"])
    return Question(where, **{**given, "by": tuple(given.get("by", ()))})


def _single(lists: Mapping[str, list[str]]) -> dict[str, Any]:
    """The parameters by name; all but ``by`` are given once."""
    found: dict[str, Any] = {}
    for name, values in lists.items():
        if name == "by":
            found[name] = [tag for value in values for tag in value.split(",")]
        elif len(values) > 1 and name in SeriesQuery._declared_fields:
            raise drf.ValidationError({name: ["It is there twice."]})
        else:
            found[name] = values[-1]
    return found
