"""What nobody asks for any more."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS, router

from django_counters.kinds.registry import registry
from django_counters.models import CounterToken


def prune(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget tokens that are out of their window; how many those were. In small batches."""
    if not router.allow_migrate_model(using, CounterToken):
        return 0
    return registry.tokens(using).prune()
