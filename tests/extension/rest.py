"""The route of the app."""

from __future__ import annotations

from collections.abc import Mapping

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.rest.base import CounterView
from django_counters.rest.permissions import CounterPermission, MayRead
from django_counters.rest.problems import ProblemKind
from tests.extension.errors import NoMood
from tests.extension.models import Mood

PROBLEMS: Mapping[type[Exception], ProblemKind] = {NoMood: ProblemKind(404, "no-mood")}


@extend_schema(exclude=True)
class MoodView(CounterView):
    """The mood of a counter."""

    may = MayRead

    def get(self, request: Request, key: str) -> Response:
        """What was told last."""
        mood = Mood.objects.filter(key=self.target(key).key).last()
        if mood is None:
            raise NoMood(f"{key} has no mood. Add one first.")
        return Response({"mood": mood.text})


class MayCheer(CounterPermission):
    """May cheer a counter up."""

    action = "cheer"


@extend_schema(exclude=True)
class CheerView(CounterView):
    """Cheers a counter up."""

    may = MayCheer

    def post(self, request: Request, key: str) -> Response:
        """Set its mood."""
        mood = Mood.objects.create(key=self.target(key).key, text="loud")
        return Response({"mood": mood.text})


urlpatterns = [
    path("counters/<counter_key:key>/cheer", CheerView.as_view(), name="cheer"),
    path("counters/<counter_key:key>/mood", MoodView.as_view(), name="mood"),
]
