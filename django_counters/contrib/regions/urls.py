"""``path("counters/region/", include("django_counters.contrib.regions.urls"))``"""

from __future__ import annotations

from django.urls import path

from django_counters.contrib.regions.answering import answer

urlpatterns = [path("", answer, name="counters-region")]
