"""Tables of models whose app isn't installed: the demonstrations and the benchmarks use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, models


@contextmanager
def tables(*chosen: type[models.Model]) -> Iterator[None]:
    """Make the tables of models for a block."""
    with connection.schema_editor() as editor:
        for model in chosen:
            editor.create_model(model)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for model in reversed(chosen):
                editor.delete_model(model)
