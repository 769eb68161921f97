"""The admin of named counters: the list with its filters, and the page of one counter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import django
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext
from django.views.decorators.http import require_safe

from django_counters import conf, errors, types
from django_counters.adjustments.admin import AdjustingMixin, adjust_url, panels, waiting_of
from django_counters.admin import overview, readonly
from django_counters.features import OnPage, features
from django_counters.models import Counter, CounterAdjustment, CounterShard
from django_counters.reading import Explanation, explain, reading_alias, readings_of
from django_counters.registry import registry
from django_counters.templatetags.counters_admin import grouped

# The rows of the list, with exact values and the columns of apps.

# Counters without a row that are shown above the list.
SHOWN = 20


class AppColumn:
    """A column of the list that an app adds; see `Feature.columns`."""

    empty_value_display = "–"  # noqa: RUF001

    def __init__(self, path: str) -> None:
        self.texts: Callable[[Mapping[str, types.Reading], str | None], Mapping[str, str]]
        self.texts = import_string(path)
        self.__name__ = self.texts.__name__
        self.short_description: Any = vars(self.texts)["short_description"]

    def __call__(self, counter: Any) -> str | None:
        """Return the text of a counter of the page."""
        return counter.texts[self.__name__].get(counter.key) or None


def app_columns() -> list[AppColumn]:
    """Return the columns of the installed apps."""
    return [AppColumn(path) for feature in features() for path in feature.columns]


class CounterList(ChangeList):
    """Gives each counter of a page its ``reading`` and ``texts``, when they are first used.

    For any number of counters that takes one query for the readings, one round trip to each Redis,
    and the queries of the columns that apps add.
    """

    #: Whether the order is that of the totals, and whether that was asked for of too many counters.
    is_by_total = False
    is_too_long = False
    #: How many counters have no row yet, and the first of them, for a user who may see them all.
    not_listed = 0
    unlisted: Sequence[tuple[str, int]] = ()
    _page: Iterable[Any] = ()
    _rows: Sequence[Any] | None = None

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        """The counters in their order. The total has no index, so only as many as a list pages."""
        found = super().get_queryset(request, exclude_parameters)
        if {"value", "-value"}.isdisjoint(map(str, found.query.order_by)):
            return found
        self.is_too_long = readonly.BoundedPaginator(found, self.list_per_page).is_cut
        self.is_by_total = not self.is_too_long
        return found.order_by("key") if self.is_too_long else found

    def get_results(self, request: HttpRequest) -> None:
        """The page, and the counters that are on none."""
        super().get_results(request)
        page: Any = self.model_admin
        if page.has_overview_permission(request):
            waiting = waiting_first(self.queryset.db).filter(key__icontains=self.query)
            self.not_listed = waiting[: readonly.MOST].count()
            first = readings_of(list(waiting[:SHOWN])) if self.not_listed else {}
            self.unlisted = [(key, reading.value) for key, reading in first.items()]

    @property
    def result_list(self) -> Sequence[Any]:
        """The counters of the page, completed."""
        if self._rows is None:
            self._rows = completed(self._page, self.queryset._db)
        return self._rows

    @result_list.setter
    def result_list(self, page: Iterable[Any]) -> None:
        self._page, self._rows = page, None

    @property
    def is_incomplete(self) -> bool:
        """Whether the values lack what waits in a Redis that is away."""
        return any(row.reading.consistency == "landed" for row in self.result_list)


def completed(page: Iterable[Any], using: str | None) -> list[Any]:
    """Return counters with their ``reading``, and the ``texts`` of apps' columns."""
    rows = list(page)
    readings = readings_of([row.key for row in rows], using)
    texts = {column.__name__: column.texts(readings, using) for column in app_columns()}
    for row in rows:
        row.reading, row.texts = readings[row.key], texts
    return rows


def waiting_first(using: str | None) -> QuerySet[CounterShard, str]:
    """The keys of counters that have shards and no row yet, because no rollup has run."""
    total = Counter._base_manager.filter(key=OuterRef("key"))
    waiting = CounterShard._base_manager.using(using).filter(~Exists(total))
    return waiting.order_by("key").values_list("key", flat=True).distinct()


# The page of one counter.

LAST_ENTRIES = 10
LAST_ADJUSTMENTS = 20


class Shown(NamedTuple):
    """The present value of a counter.

    Attributes:
        value: the exact value, or the part of it that has landed.
        exact: whether it is exact.
        parts: the name, amount and meaning of each part of the value.
        explanation: None if the exact value could not be read.
        problem: why not.
    """

    value: int
    exact: bool
    parts: list[tuple[str, int, str]]
    explanation: Explanation | None = None
    problem: str = ""


class CounterPageMixin(overview.OverviewMixin, AdjustingMixin):
    """Replaces the form of a counter by a page that shows it.

    ``get_queryset`` and ``has_view_permission`` decide who may view a counter.
    """

    @method_decorator(require_safe)
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",  # noqa: ARG002
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page of one counter. Another page adjusts it."""
        counter = self.permitted(request, object_id)
        if counter is None:
            return self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined,no-any-return]
                request, self.opts, unquote(object_id)
            )
        context = {
            **self.admin_site.each_context(request),
            **self._about(request, counter),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_counters/counter/page.html", context)

    def permitted(self, request: HttpRequest, object_id: str) -> Counter | None:
        """Return the counter of an address; None if there is none.

        Raises:
            PermissionDenied: the user may not see it.
        """
        key = unquote(object_id)
        # PostgreSQL cannot look up such a text.
        counter = None if "\0" in key else self.get_object(request, key) or self._new(request, key)
        if not self.has_view_permission(request, counter):
            raise PermissionDenied
        return counter

    def _new(self, request: HttpRequest, key: str) -> Counter | None:
        """A counter that waits for its first rollup, for a user who may see all counters."""
        if not self.has_overview_permission(request):
            return None
        using = self.get_queryset(request).db
        return Counter(key=key) if waiting_first(using).filter(key=key).exists() else None

    def _about(self, request: HttpRequest, counter: Counter) -> dict[str, Any]:
        key, policy = counter.key, registry.policy(counter.key)
        adjustments = readonly.list_url(self.admin_site, request, CounterAdjustment)
        adjusts, using = self.has_adjust_permission(request), reading_alias(policy, None)
        place = OnPage("", key, using, self.admin_site, adjusts)
        # It needs a row, and checks the permission for this counter itself.
        has_form = adjusts and counter.updated_at
        return {
            "title": key,
            "has_tools_beside_title": django.VERSION >= (6, 1),
            "opts": self.opts,
            "counter": counter,
            "facts": shown_of(counter),
            "namespace": types.namespace_of(key),
            "policy": policy,
            "panels": readonly.filled(request, panels(), [place]),
            "crumb": self.opts.verbose_name_plural.capitalize(),  # type: ignore[union-attr]
            "crumb_url": readonly.address(self.admin_site, "django_counters_counter_changelist"),
            "adjust_url": adjust_url(self.admin_site, "", key, policy.measure) if has_form else "",
            "requests": waiting_of(self.admin_site, request, key),
            "adjustments": self._adjustments(request, key),
            "adjustments_url": adjustments and f"{adjustments}?{urlencode({'q': key})}",
        }

    def _adjustments(self, request: HttpRequest, key: str) -> list[CounterAdjustment] | None:
        """The last adjustments, the latest first; None for a user who may not see them."""
        try:
            rows = readonly.visible(self.admin_site, request, CounterAdjustment)
        except PermissionDenied:
            return None
        return list(rows.filter(field="", key=key).order_by("-number")[:LAST_ADJUSTMENTS])


def shown_of(counter: Counter) -> Shown:
    """The exact value and its parts; else what the database has, and the problem."""
    try:
        found = explain(counter.key, LAST_ENTRIES, None)
    except errors.CounterError as error:
        reading = readings_of([counter.key])[counter.key]
        pending = pgettext("of a counter", "Pending")
        parts = [
            (pgettext("of a counter", "Total"), reading.total, _("rolled up")),
            (pending, reading.pending, _("pending until the next rollup")),
        ]
        exact = reading.consistency == "exact"
        return Shown(reading.value, exact, parts, problem=str(error))
    return Shown(found.value, True, _parts(found), found)


def _parts(found: Explanation) -> list[tuple[str, int, str]]:
    """The total, and the amount that waits in each place."""
    parts = [
        (pgettext("of a counter", "Total"), found.total, _("rolled up")),
        (_("Shards"), found.shards, _("pending in shards")),
        (_("Tail"), found.tail, _("entries of the ledger that are not rolled up yet")),
    ]
    if found.redis is not None:
        parts.append((_("Redis"), found.redis, _("pending in Redis until the next flush")))
    return parts


# The list and its filters.

# No namespace has a colon in its name.
OTHER = ":other"


class NamespaceFilter(readonly.ChoiceFilter):
    """The declared namespaces, and all others as one. The condition uses the primary key."""

    title = gettext_lazy("namespace")
    parameter_name = "namespace"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """The declared namespaces, if there are some."""
        names = declared()
        return [*zip(names, names, strict=True), (OTHER, _("(other)"))] if names else []

    def condition(self, choice: str) -> Q:
        """The range of keys of a namespace, or all keys in none of them."""
        return others() if choice == OTHER else within([choice])


class StrategyFilter(readonly.ChoiceFilter):
    """The strategies of the declared namespaces."""

    title = gettext_lazy("strategy")
    parameter_name = "strategy"

    def lookups(self, *_given: object) -> list[tuple[str, Any]]:
        """The strategies in use, if there are several."""
        policies = registry.policies().values()
        names = sorted({policy.recipe.strategy for policy in policies})
        return [(name, name) for name in names] if len(names) > 1 else []

    def condition(self, choice: str) -> Q:
        """The namespaces of a strategy, and all others if it is the default."""
        policies = registry.policies()
        found = [name for name in declared() if policies[name].recipe.strategy == choice]
        if policies[conf.DEFAULT].recipe.strategy == choice:
            return within(found) | others() if found else others()
        return within(found)


def declared() -> list[str]:
    """The declared namespaces, sorted by name."""
    return sorted(name for name in registry.policies() if name != conf.DEFAULT)


def within(names: Iterable[str]) -> Q:
    """The keys of these namespaces."""
    ranges = Q()
    for name in names:
        low, high = types.key_range(name)
        ranges |= Q(key__gte=low, key__lt=high)
    return ranges


def others() -> Q:
    """The keys of no declared namespace."""
    names = declared()
    return ~within(names) if names else Q()


class CounterAdmin(CounterPageMixin, readonly.ExportAdmin):
    """The list of counters with their exact values.

    The order is that of the keys, so a namespace stands together. A list that is not too long can
    be sorted by value, too: by the total, which is in the row. The pending amount is in other
    tables, and in Redis.
    """

    list_display = ("key", "exact_value", "strategy", "last_change")
    list_filter = (NamespaceFilter, StrategyFilter)
    ordering = ("key",)
    search_fields = ("key",)
    search_help_text = gettext_lazy("A part of the key")
    sortable_by = ("key", "exact_value")
    export_columns = (
        *("key", "value", "total", "pending"),
        *("strategy", "consistency", "total_changed_at"),
    )

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """Add the columns of apps."""
        return [*super().get_list_display(request), *app_columns()]

    def get_changelist(self, request: HttpRequest, **_given: Any) -> type[ChangeList]:  # noqa: ARG002
        """The list that completes its rows by exact values."""
        return CounterList

    @admin.display(description=gettext_lazy("value"), ordering="value")
    def exact_value(self, counter: Any) -> str:
        """The exact value, or the landed part of it if Redis is away; below it what is pending."""
        reading = counter.reading
        parts = [(reading.consistency != "exact", "landed", f"({_('landed')})")]
        pending = _("%(amount)s pending") % {"amount": grouped(reading.pending)}
        parts.append((reading.pending != 0, "fromto", pending))
        notes = [(name, text) for is_shown, name, text in parts if is_shown]
        told = format_html_join("", ' <span class="counters-{}">{}</span>', notes)
        return format_html("{}{}", grouped(reading.value), told)

    @admin.display(description=gettext_lazy("strategy"))
    def strategy(self, counter: Any) -> str:
        """The strategy of its namespace."""
        return registry.policy(counter.key).recipe.strategy

    @admin.display(description=gettext_lazy("last change"))
    def last_change(self, counter: Any) -> Any:
        """The time of the last change of the total."""
        return counter.updated_at

    def export_rows(self, page: Sequence[Any], using: str | None) -> Iterable[Sequence[Any]]:
        """The columns of counters, with their exact values."""
        readings = readings_of([counter.key for counter in page], using)
        for counter in page:
            reading = readings[counter.key]
            amounts = (reading.value, reading.total, reading.pending)
            known = (self.strategy(counter), reading.consistency, counter.updated_at)
            yield (counter.key, *amounts, *known)
