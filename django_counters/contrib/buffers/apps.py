"""The app: counts in the memory of a process, and flushes the sums together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from django_counters.contrib.buffers.options import OPTION, buffering_problems
from django_counters.features import Feature, Finding, Gauge, GaugeValue, Job
from django_counters.options import written_namespaces

if TYPE_CHECKING:
    from django_counters.strategies.base import Intake


class BuffersFeature(Feature):
    """What the app adds to counters."""

    namespace_options = (OPTION,)

    def imported_first(self) -> Sequence[str]:
        """Return what counts through buffers, if a namespace declares one."""
        return ["django_counters.contrib.buffers.counting"] if _has_buffers() else []

    def hints(self) -> Mapping[str, str]:
        """Return how to correct ``BUFFER``."""
        return {"E040": "Write BUFFER as the message says, or remove what it cannot stand beside."}

    def namespace_problems(
        self,
        name: str,  # noqa: ARG002
        declared: Mapping[Any, Any],
    ) -> Iterator[tuple[str, str]]:
        """Return what is wrong with ``BUFFER``."""
        return (("E040", message) for message in buffering_problems(declared))

    def intake(self, options: Mapping[str, Any]) -> Intake | None:
        """Return the buffers of a namespace that declares ``BUFFER``."""
        if options["buffer"] is None:
            return None
        from django_counters.contrib.buffers.counting import BufferIntake

        return BufferIntake(**options["buffer"])

    def jobs(self) -> Sequence[Job]:
        """Return the job that flushes files of ended processes."""
        path = "django_counters.contrib.buffers.findings.flush_files"
        text = _("flush files of buffers whose processes have ended")
        return [Job("buffers", 60, path, text, local=True)]

    def gauges(self) -> Sequence[Gauge]:
        """Return what waits in buffers, and in files."""
        from django_counters.contrib.buffers.findings import GAUGES

        return GAUGES

    def local_findings(self, using: str) -> Iterator[Finding | GaugeValue]:
        """Return the buffers of this process, and the files of ended processes."""
        from django_counters.contrib.buffers.findings import local_findings

        return local_findings(using)

    def end_process(self) -> None:
        """Flush the buffers of this process: nothing is kept any more."""
        from django_counters.contrib.buffers.process import end

        end()

    def clear(self) -> None:
        """Drop all that waits in the buffers of this process."""
        from django_counters.contrib.buffers.process import buffers

        buffers.clear()


class BuffersConfig(AppConfig):
    """Sees to it that buffers are flushed before the process ends."""

    name = "django_counters.contrib.buffers"
    label = "django_counters_buffers"
    verbose_name = _("Buffers")
    counters_feature = BuffersFeature()

    def ready(self) -> None:
        if _has_buffers():
            from django_counters.contrib.buffers.process import land_before_the_end

            land_before_the_end()


def _has_buffers() -> bool:
    """Whether a buffer is declared, rightly or not."""
    return any(options.get("BUFFER") is not None for options in written_namespaces())
