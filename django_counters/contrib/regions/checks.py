"""The system checks of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Tags, register
from django.db import connections

from django_counters.conf import policies, problems
from django_counters.contrib.regions.declared import SENT, is_regional, region_problems
from django_counters.contrib.regions.reading import attribute_problems
from django_counters.contrib.regions.sql import STATEMENTS, UNOFFERED
from django_counters.hints import message_of
from django_counters.tables.schema import COUNTERS

#: How to correct each finding, by its id.
HINTS: Mapping[str, str] = MappingProxyType(
    {
        "E041": "Remove REGIONAL or the option that it excludes.",
        "E042": 'Set COUNTERS_REGION to a name such as "eu", COUNTERS_REGIONS to a dictionary such '
        'as {"us": "us_db"} or {"us": "https://us.example/counters/region/"}, and '
        "COUNTERS_REGION_SECRETS to a list of secrets of 32 characters or more.",
        "E043": "Declare a namespace with REGIONAL for this model alone.",
        "W018": "Use a UUIDField as the primary key, or silence this warning if only one region "
        "creates records.",
    }
)


@register
def check_regions(**_: Any) -> list[CheckMessage]:
    """E042: the contents of ``COUNTERS_REGION``, its peers and secrets. Connects to nothing."""
    return [message_of("E042", text) for text in region_problems(needed=False)]


@register(Tags.models)
def check_attributes(**_: Any) -> list[CheckMessage]:
    """E043 and W018: regional counters of records, if the settings can be read."""
    if any(problems(getattr(settings, "COUNTERS", None))):
        return []
    return [message_of(code, text) for code, text in attribute_problems(apps.get_models())]


@register(Tags.database)
def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """E044: regional counters in a database that doesn't support them."""
    setting = getattr(settings, "COUNTERS", None)
    if any(problems(setting)):
        return []
    return [
        message_of("E044", f"COUNTERS[{name!r}]: {UNOFFERED}", alias)
        for alias in databases or ()
        if connections[alias].vendor not in STATEMENTS and COUNTERS.stands_in(alias)
        for name, policy in policies(setting).items()
        if is_regional(policy) and name != SENT
    ]
