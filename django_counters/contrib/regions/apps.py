"""The app: counters over several regions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.db import connections
from django.utils.translation import gettext_lazy as _

from django_counters.features import Feature, Finding, Gauge, GaugeValue, Job, Leftover, Reader
from django_counters.options import Option, is_integer

if TYPE_CHECKING:
    from django_counters.conf import Policy

_HERE = "django_counters.contrib.regions"

OPTIONS = (
    Option(
        "REGIONAL",
        False,
        "True or False",
        "Whether each [region](../regions.md) counts in a database of its own, and "
        "values are the sums of all regions.",
        lambda value: isinstance(value, bool),
        code="E041",
    ),
    Option(
        "TOP_UP",
        None,
        "None or an integer from 1 on",
        "The stock below which the region with the most sends more to another one; see "
        "[stock in several regions](../regions.md#stock). None: never.",
        lambda value: value is None or is_integer(value, 1),
        code="E041",
    ),
)


class RegionsFeature(Feature):
    """The settings, options, jobs, command and pages of the app."""

    settings = ("COUNTERS_REGION", "COUNTERS_REGIONS", "COUNTERS_REGION_SECRETS")
    namespace_options = OPTIONS
    tables = ("django_counters_counterregion",)
    panel = f"{_HERE}.admin.RegionsPanel"
    section = f"{_HERE}.admin.RegionsSection"
    commands = {"regions": f"{_HERE}.command"}

    def hints(self) -> Mapping[str, str]:
        """Return the remedy for each finding of the app's checks."""
        from django_counters.contrib.regions.checks import HINTS

        return HINTS

    def namespace_problems(
        self, name: str, declared: Mapping[Any, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the problems of ``REGIONAL`` and ``TOP_UP`` beside other options."""
        from django_counters.conf import projections
        from django_counters.contrib.regions.declared import regional_problems

        against = {
            option.name.upper(): one.spread for one in projections() for option in one.options
        }
        for message in regional_problems(name, declared, against):
            yield "E041", message

    def namespaces(self, declared: Mapping[str, Policy]) -> Mapping[str, Mapping[str, Any]]:
        """Return the namespace of stock that regions have sent to each other."""
        from django_counters.contrib.regions.declared import SENT, is_regional

        if any(map(is_regional, declared.values())):
            return {SENT: {"REGIONAL": True}}
        return {}

    def spread(self, options: Mapping[str, Any]) -> Callable[[Policy, str], Reader] | None:
        """Return the reader of all regions' sums, if a namespace is ``REGIONAL``."""
        return _reader if options.get("regional") else None

    def landing(self, using: str) -> Hashable:
        """Return this region's incarnation and life, for the flush of cached counters."""
        from django_counters.contrib.regions.publishing import landing_life

        return landing_life(using)

    def foreign_databases(self) -> Collection[str]:
        """Return the databases of other regions."""
        from django_counters.contrib.regions.declared import elsewhere

        return elsewhere()

    def jobs(self) -> Sequence[Job]:
        """Return the jobs of a region. A check searches them for jobs that need this app."""
        from django_counters.contrib.regions.declared import are_there

        if apps.is_installed(_HERE) and not are_there():
            return ()
        publish, pull = f"{_HERE}.pulling.publish_job", f"{_HERE}.pulling.pull_job"
        return (
            Job("publish", 10, publish, _("publish this region's counts")),
            Job("pull", 10, pull, _("copy other regions' counts")),
        )

    def leftovers(self, using: str) -> Iterator[Leftover]:
        """Return the counters with increments that other regions can't copy."""
        from django_counters.contrib.regions.sql import STATEMENTS, store_of

        if connections[using].vendor in STATEMENTS and (rows := store_of(using).unpublished()):
            remedy = "publish them with manage.py counters upkeep publish"
            yield Leftover("counters with unpublished increments", rows, remedy)

    def findings(self, using: str) -> Iterator[Finding | GaugeValue]:
        """Yield missing publications and copies, and their ages."""
        from django_counters.contrib.regions.state import findings

        return findings(using)

    def inquiries(self, using: str) -> Iterator[Finding]:
        """Yield the findings of other regions about this one."""
        from django_counters.contrib.regions.state import inquiries

        return inquiries(using)

    def gauges(self) -> Sequence[Gauge]:
        """Return the ages of publications and copies."""
        from django_counters.contrib.regions.state import LAG, PUBLISH_AGE

        return (LAG, PUBLISH_AGE)


def _reader(policy: Policy, using: str) -> Reader:
    from django_counters.contrib.regions.reading import reader_of

    return reader_of(policy, using)


class RegionsConfig(AppConfig):
    """Registers the checks."""

    name = _HERE
    label = "django_counters_regions"
    verbose_name = _("Counters over regions")
    counters_feature = RegionsFeature()

    def ready(self) -> None:
        from django_counters.contrib.regions import checks  # noqa: F401 - it registers itself
