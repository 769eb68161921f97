"""``path("counters/region/", include("django_counters.peers.urls"))``"""

from __future__ import annotations

from django.urls import path

from django_counters.peers.answering import answer

urlpatterns = [path("", answer, name="counters-region")]
