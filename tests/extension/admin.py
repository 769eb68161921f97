"""The sections of the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from django_counters.features import OnPage, Panel
from django_counters.registry import registry


class MoodSection:
    """Shows how many moods there are."""

    template = "moods/section.html"

    def context(self, request: HttpRequest, using: str) -> Mapping[str, Any] | None:
        from tests.extension.models import Mood

        number = Mood.objects.using(using).count()
        return {"number": number} if number else None


class MoodPanel(Panel):
    """Shows the mood of a counter."""

    template = "moods/panel.html"

    def context(self, request: HttpRequest, counter: OnPage) -> Mapping[str, Any] | None:
        from tests.extension.models import Mood

        if not counter.owner and not registry.policy(counter.key).options.get("mood"):
            return None
        rows = Mood.objects.using(counter.using).filter(owner=counter.owner, key=counter.key)
        mood = rows.first()
        return {"text": mood.text} if mood else None

    def urls(self, page: Any) -> Sequence[URLPattern]:
        def mood_view(request: HttpRequest) -> HttpResponse:
            return HttpResponse(page.adjustable(request).subject.label)

        return [path("mood/", page.admin_site.admin_view(mood_view), name="moods_mood")]
