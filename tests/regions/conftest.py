"""The fixtures of the admin's tests, for its sections of regions."""

from __future__ import annotations

from tests.admin.conftest import login as login
from tests.admin.conftest import viewer as viewer
