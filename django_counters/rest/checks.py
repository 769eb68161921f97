"""The system check of view sets that count. The app imports it when it is ready."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.checks import Error, Tags, register
from django.urls import URLPattern, URLResolver, get_resolver

from django_counters.fields import counter_fields
from django_counters.hints import HINTS


@register(Tags.urls)
def check_view_sets(app_configs: Any = None, **kwargs: Any) -> list[Error]:
    """E047: view sets in the URLs that cannot count."""
    if not getattr(settings, "ROOT_URLCONF", None):
        return []
    from django_counters.rest.viewsets import CountingViewSet

    counting = {
        view_set: None
        for view_set, actions in _view_sets(get_resolver().url_patterns)
        if issubclass(view_set, CountingViewSet) and {"increment", "decrement"} & set(actions)
    }
    return [
        Error(message, hint=HINTS[code], obj=view_set, id=f"counters.{code}")
        for view_set in counting
        for code, message in _problems(view_set)
    ]


def _view_sets(patterns: Iterable[Any]) -> Iterator[tuple[type[Any], Iterable[str]]]:
    for one in patterns:
        if isinstance(one, URLResolver):
            yield from _view_sets(one.url_patterns)
        elif isinstance(one, URLPattern) and hasattr(one.callback, "actions"):
            view: Any = one.callback
            yield view.cls, view.actions.values()


def _problems(view_set: Any) -> Iterator[tuple[str, str]]:
    name, queryset = view_set.__name__, view_set.queryset
    if not view_set.counter_fields:
        yield "E047", f"{name} counts, and its counter_fields are empty."
    if queryset is None:
        # Its get_queryset() needs a request.
        return
    known = {field.name for field in counter_fields(queryset.model) if field.is_whole}
    for field in view_set.counter_fields:
        if field not in known:
            yield "E047", f"{name}: {queryset.model._meta.label} has no counter field {field!r}."
