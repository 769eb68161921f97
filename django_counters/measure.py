"""What a namespace or a field declares to be counted by period and by tag. Keeps no state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from django_counters.calendar import PERIODS

OTHER = "~"
# Between the values of tags in a cell.
SEPARATOR = "|"
TAG_LENGTH = 60
# Of all values of one change together, encoded.
TAGS_LENGTH = 200
MOST_TAGS = 8
MOST_VALUES = 10_000
MOST_DAYS = 36_500


class Measure(NamedTuple):
    """What is counted beside a total.

    Attributes:
        name: the namespace, or ``app.Model.field``.
        per: the periods that are stored, the finest first.
        tags: how many values of each tag are kept apart; later ones are counted as ``~``.
        keep: for how many days a period is kept; for ever where it is not named.
    """

    name: str
    per: tuple[str, ...]
    tags: tuple[tuple[str, int], ...] = ()
    keep: tuple[tuple[str, int], ...] = ()


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
        if type(most) is not int or not 1 <= most <= MOST_VALUES:
            yield f"the tag {name!r} may have from 1 to {MOST_VALUES} values, not {most!r}."


def _keep_problems(keep: object, per: list[object] | tuple[object, ...]) -> Iterator[str]:
    if not isinstance(keep, Mapping):
        yield f"keep is a dictionary of periods and days, not {keep!r}."
        return
    for period, days in keep.items():
        if period not in per:
            yield f"keep names {period!r}, which is not in per."
        if type(days) is not int or not 1 <= days <= MOST_DAYS:
            yield f"{period!r} is kept for 1 to {MOST_DAYS} days, not {days!r}."
