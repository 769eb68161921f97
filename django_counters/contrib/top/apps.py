"""The app of rankings, and what it adds to counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.options import finest_first, period_columns, period_problems
from django_counters.features import Feature
from django_counters.measure import Kind
from django_counters.options import Option, Projection

if TYPE_CHECKING:
    from django_counters.strategies.declaring import Capabilities

_FOLDER = __name__.rpartition(".")[0]

#: The sums over tags and shards, in an index by their size.
RANK = Kind(
    "rank",
    "top",
    "django_counters_counterrank",
    period_columns("mpskd"),
    derived=True,
    varied="ps",
    order=30,
)


def _parts(top: object, **_: object) -> dict[str, Any]:
    """Return the part of a `Measure`: periods with ranks are stored."""
    return {"per": finest_first(top), "top": finest_first(top)}


def _problems(top: object, **_: object) -> Iterator[str]:
    yield from period_problems("top", top)


def _against(top: object, strategy: str, can: Capabilities, **_: object) -> Iterator[str]:
    if top is not None and not can.one_row:
        reason = "all who count would wait for the one row that has the sum of a period"
        yield f"{strategy} cannot have top: {reason}."


TOP = Projection(
    name="top",
    options=(
        Option(
            "top",
            None,
            f"list of periods: {', '.join(map(repr, PERIODS))}; or None",
            "The periods whose [largest counts](../top.md) are found at once. They are stored even "
            "if `per` doesn't name them.",
        ),
    ),
    problems=_problems,
    make=_parts,
    in_namespaces="E033",
    in_fields="E034",
    against=_against,
    spread="ranks of other databases aren't read yet",
)


class Top(Feature):
    """The option, route and admin sections of rankings."""

    kinds = (RANK,)
    options = (TOP,)
    tables = (RANK.table,)
    left = "ranks"
    rest = f"{_FOLDER}.rest"
    panel = f"{_FOLDER}.admin.PlacesPanel"
    section = f"{_FOLDER}.admin.LargestSection"

    def hints(self) -> Mapping[str, str]:
        return {
            "E033": 'TOP is a list of periods such as ["day", "week"], for exact and cached '
            "counters.",
            "E034": 'top is a list of periods such as ["day", "week"], for exact and cached '
            "counters.",
        }


class TopConfig(AppConfig):
    """The app."""

    name = "django_counters.contrib.top"
    label = "django_counters_top"
    verbose_name = _("Rankings")
    default_auto_field = "django.db.models.BigAutoField"
    counters_feature = Top()
