"""Moods of counters: each thing that an app can add."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

from django_counters.errors import LandingRefused
from django_counters.features import (
    Drift,
    Feature,
    Finding,
    Gauge,
    GaugeValue,
    Job,
    Reader,
    Tally,
)
from django_counters.options import Option, Projection
from tests.extension.streaks import STREAK, STREAKS, TAGGED

if TYPE_CHECKING:
    from django_counters.strategies.base import Intake

MOODS = ("calm", "loud")
SAD = Gauge("moods_sad_counters", "How many counters are sad.", ("text",))
QUEUED = Gauge("moods_queued", "How much waits in this process.")
SHOUT = """
CREATE FUNCTION django_counters_shout(words text) RETURNS text LANGUAGE sql
AS $$ SELECT upper(words) $$
"""


def _problems(mood: object, **_: object) -> Iterator[str]:
    if mood not in (None, *MOODS):
        yield f"{mood!r} isn't a mood. Use 'calm' or 'loud'."


def _conditions(vouchers: object, **_: object) -> dict[str, Any]:
    from tests.extension.vouchers import OncePerVoucher

    return {"condition": OncePerVoucher()} if vouchers else {}


class Moods(Feature):
    """What the app adds."""

    options = (
        Projection(
            name="moods",
            options=(Option("mood", None, "calm, loud or None", "Its mood."),),
            problems=_problems,
            make=lambda **_: {},
            in_namespaces="E100",
            in_fields="E101",
            merges=True,
        ),
        Projection(
            name="vouchers",
            options=(Option("vouchers", False, "True or False", "Each voucher counts once."),),
            problems=lambda **_: iter(()),
            make=_conditions,
            in_namespaces="E100",
            in_fields="E101",
        ),
        *STREAKS,
    )
    kinds = (STREAK, TAGGED)
    tables = (STREAK.table, TAGGED.table)
    namespace_options = (
        Option(
            "SHARED", False, "True or False", "Others count it, too.", lambda one: one in (0, 1)
        ),
        Option("QUEUED", False, "True or False", "It waits.", lambda one: one in (0, 1)),
    )
    strategies = MappingProxyType({"twice": "tests.extension.twice.TWICE"})
    section = "tests.extension.admin.MoodSection"
    #: What may land, and which databases belong to others.
    lands: Hashable = "today"
    foreign: Collection[str] = ()
    rest = "tests.extension.rest"
    panel = "tests.extension.admin.MoodPanel"
    actions = MappingProxyType({"cheer": "moods.add_mood"})
    tallies = (
        Tally("moods_cheered_total", "How many were.", ("mood",), "tests.extension.work.cheered"),
    )
    commands = {"mood": "tests.extension.command"}

    def functions(self, vendor: str) -> Sequence[str]:
        from tests.extension.vouchers import FUNCTIONS

        return [SHOUT, *FUNCTIONS] if vendor == "postgresql" else []

    def hints(self) -> Mapping[str, str]:
        return {"E102": "Remove SHARED."}

    def namespace_problems(
        self, name: str, declared: Mapping[Any, Any]
    ) -> Iterator[tuple[str, str]]:
        if declared.get("SHARED") and declared.get("FLOOR") is not None:
            yield "E102", "SHARED can't be used with FLOOR. Remove one."

    def namespaces(self, declared: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        shared = any(policy.options.get("shared") for policy in declared.values())
        return {"moods.shared": {"STRATEGY": "sharded"}} if shared else {}

    def spread(self, options: Mapping[str, Any]) -> Callable[[Any, str], Reader] | None:
        from tests.extension.work import Doubling

        return Doubling() if options.get("shared") else None

    def intake(self, options: Mapping[str, Any]) -> Intake | None:
        from tests.extension.queued import Queue

        return Queue() if options["queued"] else None

    def end_process(self) -> None:
        from tests.extension.queued import send

        send()

    def clear(self) -> None:
        from tests.extension.queued import waiting

        waiting.clear()

    def local_findings(self, using: str) -> Iterator[Finding | GaugeValue]:
        from tests.extension.queued import waiting

        if waiting:
            yield Finding("queue", "", 0, len(waiting), warns=True)
            yield GaugeValue(QUEUED, (), sum(waiting.values()))

    def landing(self, using: str) -> Hashable:
        if self.lands is None:
            raise LandingRefused(reason="all are asleep")
        return self.lands

    def foreign_databases(self) -> Collection[str]:
        return self.foreign

    def inquiries(self, using: str) -> Iterator[Finding]:
        from tests.extension.models import Mood

        if Mood.objects.using(using).filter(text="lonely").exists():
            yield Finding("friends", "", 0, 0, "none has answered", warns=True)

    def jobs(self) -> Sequence[Job]:
        return [Job("cheer", 60, "tests.extension.work.cheer", "cheer everybody up")]

    def prune(self, using: str) -> Mapping[str, int]:
        from tests.extension.models import Mood

        return {"moods": Mood.objects.using(using).filter(text="").delete()[0]}

    def keeps_rows(self, field: Any) -> bool:
        return field.options.get("mood") is not None

    def forget(self, owner: str, keys: Sequence[str], using: str) -> None:
        from tests.extension.models import Mood

        Mood.objects.using(using).filter(owner=owner, key__in=keys).delete()

    def forget_actor(
        self, actor: str, using: str, *, keep_counts: bool, dry_run: bool
    ) -> Mapping[str, int]:
        from tests.extension.models import Mood

        rows = Mood.objects.using(using).filter(text=actor)
        return {"moods": rows.count() if dry_run else rows.delete()[0]}

    def drifts(self, using: str) -> Iterator[Drift]:
        from tests.extension.models import Mood

        for mood in Mood.objects.using(using).filter(text="odd"):
            yield Drift(mood.key, 0, 1)

    def outlets(self) -> Mapping[str, Callable[[Any, str], Any]]:
        from tests.extension.diary import Diary

        return {"diary": Diary}

    def findings(self, using: str) -> Iterator[Finding | GaugeValue]:
        from tests.extension.models import Mood

        sad = Mood.objects.using(using).filter(text="sad").count()
        if sad:
            yield Finding("moods", "", sad, sad, "cheer them up", warns=True)
            yield GaugeValue(SAD, ("sad",), sad)

    def gauges(self) -> Sequence[Gauge]:
        return [SAD, QUEUED]


class MoodsConfig(AppConfig):
    """The app."""

    name = "tests.extension"
    label = "moods"
    default_auto_field = "django.db.models.BigAutoField"
    counters_feature: Any = Moods()
