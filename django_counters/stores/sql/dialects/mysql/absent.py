"""What counters can't have on MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from django_counters.errors import InvalidConfiguration

_POSTGRESQL = "on MySQL and MariaDB. Use PostgreSQL"
#: What isn't offered, and the remedy.
LACKS: Mapping[str, str] = MappingProxyType(
    {
        "ledger": f"The ledger isn't offered {_POSTGRESQL}, or the strategy 'exact' or 'sharded'.",
        "detour": (
            f"A cached counter can't go to the ledger {_POSTGRESQL}, or set ON_REDIS_DOWN to "
            "'exact' or 'raise'."
        ),
        "history": f"HISTORY isn't offered {_POSTGRESQL}, or count by period with PER.",
        "conditions": f"A condition isn't offered {_POSTGRESQL}, or remove the option.",
    }
)


class Absent:
    """Stand in place of a topic's statements, and refuse each of them."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            # Python asks what it is.
            raise AttributeError(name)
        raise InvalidConfiguration(problem=LACKS[self._what])


def absent(what: str) -> Any:
    """Return the statements of a topic that isn't offered."""
    return Absent(what)
