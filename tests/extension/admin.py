"""The panel of the app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from django_counters.registry import registry


class MoodPanel:
    """Shows the mood of a counter."""

    template = "moods/panel.html"

    def context(
        self,
        request: HttpRequest,
        owner: str,
        key: str,
        using: str,
    ) -> Mapping[str, Any] | None:
        from tests.extension.models import Mood

        if not owner and not registry.policy(key).options.get("mood"):
            return None
        mood = Mood.objects.using(using).filter(owner=owner, key=key).first()
        return {"text": mood.text} if mood else None
