"""What one increment costs, and what so many of them would need.

``python -m benchmarks.capacity`` prints the plans of the documentation from costs that were
measured before; ``--measure`` measures them anew, ``--publish`` writes them into the documentation.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.capacity.costs import Capacity
from benchmarks.harness import Effort

__all__ = ["Capacity", "measure"]


def measure(effort: Effort, progress: Callable[[str], None]) -> Capacity:
    """Measure the unit costs on the servers that the connection and the cache lead to.

    Django is set up, and the tables of the benchmarks are there. The write-ahead log of a database
    whose commits do not wait for the disk is not what it is elsewhere: use a durable one. A Redis
    on a unix socket writes an append-only file meanwhile.

    Raises:
        WrongSum: what is stored is not what was counted.
        PgbenchFailed: there is no pgbench, or it failed.
    """
    from benchmarks.capacity.measuring import measured

    return measured(effort, progress)
