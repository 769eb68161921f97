"""What REST framework gets when the app is ready: the serializer field of counters, and a check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework import serializers

from django_counters.fields import counter_fields
from django_counters.hints import message_of
from django_counters.tables.total import TotalField

# Serializer fields.

# Of 64 bits there are 19.
_DIGITS = 19
_SHOWN = ("label", "help_text", "style", "source")


class CounterSerializerField(serializers.IntegerField):
    """A read-only counter: ``save()`` would not write the number that a client sent."""

    def __new__(cls, **kwargs: Any) -> Any:
        """Make the field of decimals if the model's field has decimal places."""
        if kwargs.get("decimal_places"):
            return DecimalCounterSerializerField(**kwargs)
        return super().__new__(cls, **kwargs)

    def __init__(self, **kwargs: Any) -> None:
        # The other options are about input.
        given = {name: kwargs[name] for name in _SHOWN if name in kwargs}
        super().__init__(**given, read_only=True)


class DecimalCounterSerializerField(serializers.DecimalField):
    """A read-only counter with decimal places: a text, as other decimals are."""

    def __init__(self, *, decimal_places: int, **kwargs: Any) -> None:
        given = {name: kwargs[name] for name in _SHOWN if name in kwargs}
        super().__init__(_DIGITS, decimal_places, **given, read_only=True)


_MAPPING: Any = serializers.ModelSerializer.serializer_field_mapping
_MAPPING[TotalField] = CounterSerializerField


# The check of view sets.


@register(Tags.urls)
def check_view_sets(**_: Any) -> list[CheckMessage]:
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
        message_of(code, text, view_set)
        for view_set in counting
        for code, text in _problems(view_set)
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
