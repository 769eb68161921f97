"""A panel for Django Debug Toolbar, which lists the counters that a request has changed."""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import ContextVar
from typing import Any

from debug_toolbar.panels import Panel
from django.apps import apps
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_counters.signals import batch_applied
from django_counters.types import Batch, NewValues, result_of
from django_counters.write.records import column_of

# A batch may have thousands of changes, and the store of the toolbar keeps the last 25 requests.
MOST = 200

# Threads of requests and async tasks each have a context; Django takes it along between the two.
_present: ContextVar[CountersPanel | None] = ContextVar("django_counters_panel", default=None)


class CountersPanel(Panel):
    """Lists the changes of a request: ``"django_counters.metrics.panel.CountersPanel"``.

    It listens to `batch_applied` while a request runs that the toolbar shows. At any other time
    nothing is connected.
    """

    is_async = True
    template = "django_counters/panel.html"
    title = nav_title = _("Counters")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._number = 0
        self._changes: list[dict[str, str]] = []

    @property
    def nav_subtitle(self) -> str:
        """The number of changes."""
        number = self.get_stats().get("number", 0)  # type: ignore[no-untyped-call]
        return ngettext("%(number)d change", "%(number)d changes", number) % {"number": number}

    def enable_instrumentation(self) -> None:
        """Listen to the changes of this request."""
        _present.set(self)
        batch_applied.connect(self._hear)

    def disable_instrumentation(self) -> None:
        """Listen no more."""
        batch_applied.disconnect(self._hear)
        _present.set(None)

    def generate_stats(self, request: Any, response: Any) -> None:  # noqa: ARG002
        """Hand the changes to the toolbar, as texts: its store writes JSON."""
        more = self._number - len(self._changes)
        found = {"number": self._number, "changes": self._changes, "more": more}
        self.record_stats(found)  # type: ignore[no-untyped-call]

    def _hear(
        self, batch: Batch, values: NewValues, strategy: str, subject: str, using: str, **_: object
    ) -> None:
        # The changes of requests that run at the same time are sent to all panels.
        if _present.get() is not self:
            return
        self._number += len(batch.deltas)
        shared = {"strategy": strategy, "using": using}
        for delta in batch.deltas[: MOST - len(self._changes)]:
            self._changes.append(_row(subject, delta.key, delta.by, values) | shared)


def _row(subject: str, key: Hashable, by: int, values: NewValues) -> dict[str, str]:
    """One change as texts. An unknown value has the reason instead of a number."""
    result = result_of(values[key])
    label, _, name = subject.rpartition(".")
    column = column_of(apps.get_model(label), name) if label else None
    present = column.present if column else int
    return {
        "counter": f"{subject}:{key}" if subject else str(key),
        "by": f"{present(by):+}",
        "value": "" if result.value is None else str(present(result.value)),
        "reason": getattr(result, "reason", ""),
    }
