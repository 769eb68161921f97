"""An app that keeps a namespace with a buffer: no setting declares one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.apps import AppConfig

from django_counters.features import Feature


class Hits(Feature):
    """What the app adds."""

    def namespaces(self, declared: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        return {"hits": {"BUFFER": {"seconds": 3600}}}


class HitsConfig(AppConfig):
    """The app."""

    name = "tests.workers"
    label = "hits"
    counters_feature = Hits()
