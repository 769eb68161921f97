"""What to do about each finding of the system checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from django.core import checks
from django.utils.functional import lazy
from django.utils.text import format_lazy

from django_counters import conf
from django_counters.features import features
from django_counters.strategies.declaring import Declaration


def _names(strategies: Callable[[], Mapping[str, Declaration]]) -> str:
    return ", ".join(f'"{name}"' for name in strategies())


# Strategies are imported when a hint is shown.
_listed = lazy(_names, str)
_OPTION = "Write the option as the message says. Remove it where the strategy has none."
# By the id of the check. The documentation says more under the same ids.
HINTS: Mapping[str, Any] = MappingProxyType(
    {
        "E001": 'Write a dictionary of options for each namespace: {"stock": {"FLOOR": 0}}.',
        "E002": 'Name what stands before the first ":" of keys, without white space and ":". '
        'Undeclared namespaces have the policy of "default".',
        "E003": "Write options in capital letters, and those of one strategy within OPTIONS.",
        "E004": format_lazy(
            'STRATEGY is one of {}; without it, "exact".', _listed(conf.strategies)
        ),
        "E005": "A bound is an integer of 64 bits or None, and FLOOR is not above CEILING.",
        "E006": "Keep counters in PostgreSQL, MySQL or MariaDB, or in SQLite for development. "
        "If this database is to hold none, say so in allow_migrate of a router.",
        "E007": "Use a newer Python or SQLite, or PostgreSQL.",
        "E008": _OPTION,
        "E009": "Remove the bound, or make the namespace exact: elsewhere no writer knows the "
        "value that the others leave.",
        "E010": format_lazy(
            "The strategy of a field is one of {}.", _listed(conf.field_strategies)
        ),
        "E011": "A bound is an integer of 64 bits or None, and floor is not above ceiling.",
        "E012": "Remove null=True. The migration sets rows that are NULL to 0.",
        "E013": "Remove primary_key=True, and let another field be the primary key.",
        "E014": "Use a named counter whose key contains the parts, such as seats:5:12.",
        "E015": "Set default or db_default to an integer within floor and ceiling. Without one a "
        "counter starts at 0.",
        "E016": "Remove the bound, or make the field exact: elsewhere no writer knows the value "
        "that the others leave.",
        "E017": 'Set slots to "auto" or to an integer from 1 to 1024.',
        "E018": "Make the field exact, or use a named counter.",
        "E019": _OPTION,
        "E020": "Write the argument as the message says.",
        "E021": "Name a cache of CACHES whose backend is the RedisCache of Django or django-redis, "
        "or made from it; or a URL such as redis://host:6379/0. It needs "
        "django-distributed-counters[redis].",
        "E023": "Set APPROVE_ABOVE to the largest change that one person alone may make by an "
        "adjustment: an integer from 0 on, or None.",
        "E024": "Set approve_above to the largest change that one person alone may make by an "
        "adjustment: an integer from 0 on, or None.",
        "E026": "Write it as the message says, or leave it out: what API does not name is closed.",
        "E036": "CEILING is an integer, or of an exact namespace a dictionary of periods such as "
        '{"month": 10_000}.',
        "E037": "ceiling is an integer, or of an exact field a dictionary of periods such as "
        '{"month": 10_000}.',
        "E038": "places is an integer from 1 to 18, of a field without once and without a ceiling "
        "of periods.",
        "E044": "Change the declaration, or the database's OPTIONS or server, as the message says.",
        "E060": "Set COUNTERS_TENANT to the dotted path of a callable that returns the tenant, and "
        "COUNTERS_TENANT_CONTEXT to that of a context manager that switches to one. If the "
        "backend doesn't switch tenants, set COUNTERS_TENANT to None.",
        "E061": 'COUNTERS_UPKEEP has seconds for names of jobs: {"rollup": 30}. '
        "manage.py counters upkeep --list names them.",
        "E062": "Add the app to INSTALLED_APPS and run manage.py migrate, or remove the setting.",
        "E063": "Add the app to INSTALLED_APPS again: nothing else looks after these rows.",
        "E064": "Treat all labels that begin with django_counters alike in allow_migrate: write "
        'app_label.startswith("django_counters") in place of app_label == "django_counters".',
        "E065": "Rename it in the Feature of your app, or remove one of the apps.",
        "E066": "Run manage.py counters upkeep rollup for this database. Keep running counters "
        "upkeep: an increment that began under the former settings may still append an entry.",
        "E067": "Run manage.py counters flush for this database: no value has these increments.",
        "E047": "Name counter fields of the model, without decimal places, in counter_fields.",
        "W010": "Remove the index, or silence this warning where the counter seldom changes.",
        "W011": "Run manage.py counters upkeep partitions, as the owner of the table, every hour.",
        "W012": "Set maxmemory-policy to noeviction, or give the counters a Redis of their own.",
        "W013": "Set appendonly to yes, or silence this warning if you accept the loss.",
        "W014": "Check its address. Allow its user INFO, EVAL and EVALSHA, under these names.",
        "W015": "Use Redis 6.2 or newer, or Valkey.",
        "W016": "Before the first increment, name a cache of CACHES whose backend is the "
        "RedisCache of Django or django-redis, or made from it; or a URL such as redis://host:6379/0.",
        "W017": "Remove the setting where the site runs.",
        "W024": "Use CASCADE, or forget the slots, periods, actors and other rows of deleted "
        "records.",
        "W023": "Use redis+cluster://host:6379, or a cache whose client is a RedisCluster.",
        "W019": "Read what each database promises, then silence this warning, or use PostgreSQL.",
        "W025": "Treat all labels that begin with django_counters alike in db_for_read and "
        'db_for_write: write app_label.startswith("django_counters") in place of app_label == '
        '"django_counters".',
        "W020": "Set TIME_ZONE back, or count under a new namespace or field name.",
    }
)


def message_of(code: str, text: str, obj: object = None) -> checks.CheckMessage:
    """Return a finding of the core, or of an app's option, with what to do about it."""
    of_apps = {name: hint for one in features() for name, hint in one.hints().items()}
    kind = checks.Warning if code.startswith("W") else checks.Error
    return kind(text, hint=HINTS.get(code) or of_apps.get(code), obj=obj, id=f"counters.{code}")
