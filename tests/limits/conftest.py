"""Fixtures of other folders: the API with its namespaces, and a Redis that loses answers."""

from __future__ import annotations

from tests.redis.conftest import proxy as proxy
from tests.rest.conftest import as_ as as_
from tests.rest.conftest import namespaces as namespaces
