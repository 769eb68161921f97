"""One page on the state of all counters, and the work to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from django.apps import apps
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import connections, router
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.module_loading import import_string
from django.utils.timesince import timesince
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from django_counters import clock
from django_counters.admin.readonly import ReadOnlyAdmin, list_url
from django_counters.exceptions import InvalidConfiguration
from django_counters.features import Finding, Section, features
from django_counters.fields.columns import counter_fields
from django_counters.measure import Measure
from django_counters.metrics.doctor import facts_of, to_do
from django_counters.metrics.facts import PARTS, RECENT, Away, Facts, attempt
from django_counters.models import AdjustmentRequest, Counter, CounterCell, CounterIncident
from django_counters.read.series import RecordSeries, Series, series_of_all
from django_counters.read.top import Ranked
from django_counters.read.uniques import Distinct
from django_counters.registry import registry
from django_counters.tables.standing import COUNTERS, databases
from django_counters.write.chosen import Rows

_BREAKERS: Mapping[str | None, Any] = MappingProxyType(
    {
        "closed": _("closed: calls go through"),
        "half-open": _("half-open: the next call tries"),
        "open": _("open: it is left alone for a moment"),
        None: _("not asked yet"),
    }
)
_MINUTE = timedelta(minutes=1)
# How many counters of each.
_TOP = 5


class OverviewMixin(ReadOnlyAdmin):
    """Adds the overview to the admin of counters.

    Override `has_overview_permission` to hide it from a user.
    """

    def get_urls(self) -> list[URLPattern]:
        """Adds the address of the overview."""
        view = self.admin_site.admin_view(self.overview_view)
        return [path("overview/", view, name="django_counters_overview"), *super().get_urls()]

    def has_overview_permission(self, request: HttpRequest) -> bool:
        """Whether the user may see the overview of all counters."""
        return self.has_view_permission(request)

    @method_decorator(require_safe)
    def overview_view(self, request: HttpRequest) -> HttpResponse:
        """The overview of one database: that of the counters, or ``?database=``."""
        if not self.has_overview_permission(request):
            raise PermissionDenied
        using = request.GET.get("database") or router.db_for_write(Counter)
        if using not in connections:
            raise Http404
        context = {
            **self.admin_site.each_context(request),
            **_shown(_in_local_time(facts_of(using, *PARTS))),
            "tops": _tops(using),
            "sections": _sections(request, using),
            "title": _("Overview"),
            "opts": self.opts,
            "databases": databases(),
            "days": RECENT.days,
            "incidents_url": list_url(self.admin_site, request, CounterIncident),
            "requests_url": list_url(self.admin_site, request, AdjustmentRequest),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_counters/overview.html", context)


class Top(NamedTuple):
    """Who has counted most in the present period, of a namespace or of a field.

    Each row has the number of different people, where they are counted by this period.
    """

    subject: str
    period: Any
    rows: Sequence[tuple[Ranked, Distinct | None]]
    problem: str


def _tops(using: str) -> list[Top]:
    """Who has counted most in the longest period that is ranked, wherever one is.

    A record is its primary key: who may see counters may not see the records.
    """
    try:
        policies = registry.policies()
    except InvalidConfiguration:
        # That is what has to be done.
        return []
    ranked = [
        _Ranks(name, policy.measure, of_namespace, Counter.objects.series)
        for name, policy in policies.items()
        if policy.measure and policy.measure.top and COUNTERS.stands_in(using)
        for of_namespace in [Counter.objects.series(namespace=name)]
    ]
    for model in apps.get_models():
        for field in counter_fields(model) if router.allow_migrate_model(using, model) else ():
            if field.model is model and field.measure and field.measure.top:
                label, of_all = f"{model._meta.label}.{field.name}", series_of_all(field, model)
                some = partial(_of_some, of_all, model._base_manager.using(using))
                ranked.append(_Ranks(label, field.measure, of_all, some))
    found = []
    for ranks in ranked:
        period = CounterCell.Period[ranks.measure.top[-1].upper()].label
        told = attempt(ranks.subject, using, partial(_told, ranks, using))
        rows, problem = ((), told.reason) if isinstance(told, Away) else (told, "")
        found.append(Top(ranks.subject, period, rows, problem))
    return found


class _Ranks(NamedTuple):
    """A ranking: all counters of a namespace or of a field, and how to ask for some."""

    subject: str
    measure: Measure
    series: Series
    some: Callable[[Sequence[Any]], Series]


def _of_some(series: RecordSeries, rows: Rows, keys: Sequence[Any]) -> Series:
    """The series of some records of a field."""
    return series.of(rows.filter(pk__in=keys))


def _told(ranks: _Ranks, using: str) -> list[tuple[Ranked, Distinct | None]]:
    """Who has counted most, and how many people each of them had."""
    by = ranks.measure.top[-1]
    ranked = ranks.series.using(using).per(by).top(_TOP)
    if by not in ranks.measure.unique or not ranked:
        return [(one, None) for one in ranked]
    some = ranks.some([one.key for one in ranked])
    people = some.using(using).per(by).last(1).unique_each()
    return [(one, people.get(one.key)) for one in ranked]


def _in_local_time(found: Facts) -> Facts:
    """The facts with times in the current time zone."""
    if found.incidents is None or not settings.USE_TZ:
        return found
    shown = (replace(one, last=timezone.localtime(one.last)) for one in found.incidents)
    return replace(found, incidents=tuple(shown))


def _shown(found: Facts) -> dict[str, Any]:
    """The context of the facts."""
    ledger = found.ledger
    return {
        "overview": found,
        "to_do": [_parted(one) for one in to_do(found)],
        "redises": [
            (one, str(_BREAKERS[one.breaker]), age_text(one.lag)) for one in found.redises or ()
        ],
        "rollup_lag": age_text(ledger.lag) if ledger else "",
        "rates": [
            (_("Increments that landed from Redis"), found.landed),
            (_("Entries of the ledger"), found.entries),
        ],
        "periods": [rate.minutes for rate in found.landed or found.entries or ()],
    }


def _parted(one: Finding) -> tuple[Finding, str, str]:
    """A finding, and the parts of its action before and after the command."""
    before, _command, after = (
        one.action.partition(one.command) if one.command else (one.action, "", "")
    )
    return one, before, after


def age_text(lag: timedelta | None) -> str:
    """A duration for people; empty if it is not known."""
    if lag is None:
        return ""
    if lag < 2 * _MINUTE:
        seconds = max(0, round(lag.total_seconds()))
        return ngettext("%(seconds)d second", "%(seconds)d seconds", seconds) % {"seconds": seconds}
    now = clock.now()
    return timesince(now - lag, now)


def _sections(request: HttpRequest, using: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return template and context of each section that apps add to the overview."""
    present: list[Section] = [
        import_string(feature.section)() for feature in features() if feature.section
    ]
    pairs = ((section, section.context(request, using)) for section in present)
    return [(section.template, context) for section, context in pairs if context is not None]
