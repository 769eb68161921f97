"""Declares what is counted by period and by tag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django_counters.calendar import PERIODS
from django_counters.measure import MOST_TAGS, TAG_LENGTH, Measure
from django_counters.options import Option, is_integer
from django_counters.projections.base import Projection

MOST_VALUES = 10_000
MOST_DAYS = 36_500


def measure_of(name: str, per: object, tags: object, keep: object) -> Measure | None:
    """The measure that options without problems declare; None where nothing is counted by period.

    Args:
        name: the namespace, or ``app.Model.field``.
        per: periods, as a list.
        tags: how many values each tag may have.
        keep: days by period.
    """
    if not isinstance(per, list | tuple) or not per:
        return None
    numbers = tags if isinstance(tags, Mapping) else {}
    days = keep if isinstance(keep, Mapping) else {}
    finest_first = tuple(sorted(per, key=PERIODS.index))
    return Measure(name, finest_first, tuple(numbers.items()), tuple(days.items()))


def measure_problems(per: object, tags: object, keep: object) -> Iterator[str]:
    """Yield what is wrong with the periods, tags and days that somebody declares."""
    if per is None:
        for name, given in (("tags", tags), ("keep", keep)):
            if given:
                yield f"{name} need periods to count by: name some in per."
        return
    if not isinstance(per, list | tuple) or not per or len(set(map(str, per))) < len(per):
        yield f"per is a list of different periods, not {per!r}."
        return
    for period in per:
        if period not in PERIODS:
            yield f"{period!r} is no period. Known are: {', '.join(PERIODS)}."
    yield from _tag_problems({} if tags is None else tags)
    yield from _keep_problems({} if keep is None else keep, per)


def _tag_problems(tags: object) -> Iterator[str]:
    if not isinstance(tags, Mapping) or len(tags) > MOST_TAGS:
        yield f"tags is a dictionary of at most {MOST_TAGS} names and numbers, not {tags!r}."
        return
    for name, most in tags.items():
        if not isinstance(name, str) or not name.isidentifier() or len(name) > TAG_LENGTH:
            yield f"{name!r} cannot be a tag: a name in Python can."
        if not is_integer(most, 1, MOST_VALUES):
            yield f"the tag {name!r} may have from 1 to {MOST_VALUES} values, not {most!r}."


def _keep_problems(keep: object, per: list[object] | tuple[object, ...]) -> Iterator[str]:
    if not isinstance(keep, Mapping):
        yield f"keep is a dictionary of periods and days, not {keep!r}."
        return
    for period, days in keep.items():
        if period not in per:
            yield f"keep names {period!r}, which is not in per."
        if not is_integer(days, 1, MOST_DAYS):
            yield f"{period!r} is kept for 1 to {MOST_DAYS} days, not {days!r}."


SERIES = Projection(
    name="series",
    options=(
        Option(
            "per",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "By which periods increments are [counted](../how-to/count-over-time.md), beside the "
            "total. None: by none.",
        ),
        Option(
            "tags",
            None,
            "dictionary of names and numbers, or None",
            "How many values of each [tag](../how-to/count-by-tag.md) are counted apart. "
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
    problems=measure_problems,
    make=measure_of,
    in_namespaces="E027",
    in_fields="E028",
)
