"""Declares what is counted by period and by tag."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django_counters.calendar import PERIODS
from django_counters.measure import MOST_TAGS, TAG_LENGTH
from django_counters.options import Option, is_integer
from django_counters.projections.base import Projection, finest_first, period_problems

MOST_VALUES = 10_000
MOST_DAYS = 36_500


def _parts(per: object, tags: object, keep: object, **_: object) -> dict[str, Any]:
    """What options without problems say of the measure."""
    return {
        "per": finest_first(per),
        "tags": tuple(tags.items()) if isinstance(tags, Mapping) else (),
        "keep": tuple(keep.items()) if isinstance(keep, Mapping) else (),
    }


def _problems(per: object, tags: object, keep: object, **others: object) -> Iterator[str]:
    """Yield what is wrong with the periods, tags and days of a declaration."""
    known = [period for given in (per, *others.values()) for period in finest_first(given)]
    if not known:
        for name, given in (("tags", tags), ("keep", keep)):
            if given:
                yield f"{name} need periods to count by: name some in per."
    yield from period_problems("per", per)
    if known:
        yield from _tag_problems({} if tags is None else tags)
        yield from _keep_problems({} if keep is None else keep, known)


def _tag_problems(tags: object) -> Iterator[str]:
    if not isinstance(tags, Mapping) or len(tags) > MOST_TAGS:
        yield f"tags is a dictionary of at most {MOST_TAGS} names and numbers, not {tags!r}."
        return
    for name, most in tags.items():
        if not isinstance(name, str) or not name.isidentifier() or len(name) > TAG_LENGTH:
            yield f"{name!r} cannot be a tag: a name in Python can."
        if not is_integer(most, 1, MOST_VALUES):
            yield f"the tag {name!r} may have from 1 to {MOST_VALUES} values, not {most!r}."


def _keep_problems(keep: object, known: Collection[str]) -> Iterator[str]:
    if not isinstance(keep, Mapping):
        yield f"keep is a dictionary of periods and days, not {keep!r}."
        return
    for period, days in keep.items():
        if period not in known:
            yield f"keep names {period!r}, by which nothing is counted."
        if not is_integer(days, 1, MOST_DAYS):
            yield f"{period!r} is kept for 1 to {MOST_DAYS} days, not {days!r}."


SERIES = Projection(
    name="series",
    options=(
        Option(
            "per",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "By which periods increments are [counted](../series.md), beside the "
            "total. None: by none.",
        ),
        Option(
            "tags",
            None,
            "dictionary of names and numbers, or None",
            "How many values of each [tag](../series.md#split-by-tag) are counted apart. "
            "Only with periods.",
        ),
        Option(
            "keep",
            None,
            "dictionary of periods and days, or None",
            "For how many days a period is kept; one that is not named, for ever. "
            "Only with periods.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E027",
    in_fields="E028",
    merges=True,
)
