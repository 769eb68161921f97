"""What migrations keep of a ``CachedCounterField`` that is not cached."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.migrations.writer import MigrationWriter

from django_counters import CachedCounterField
from django_counters.conf import field_strategies


@pytest.mark.parametrize("options", [{}, *({"strategy": name} for name in field_strategies())])
def test_its_strategy_outlives_a_clone_and_a_migration(options: dict[str, Any]) -> None:
    field = CachedCounterField(**options)
    written, imports = MigrationWriter.serialize(field)
    namespace: dict[str, Any] = {}
    exec("\n".join([*imports, f"written = {written}"]), namespace)
    for same in (field.clone(), namespace["written"]):
        assert same.strategy == options.get("strategy", "cached")
        assert same.deconstruct() == field.deconstruct()
