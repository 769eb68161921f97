"""How costs grow: each growth is a plot. Django has to be set up."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.curves import Growth
from benchmarks.growth import bloat, clients, folding, memory, reads

GROWTHS: Sequence[Growth] = (
    *clients.GROWTHS,
    *reads.GROWTHS,
    *folding.GROWTHS,
    *bloat.GROWTHS,
    *memory.GROWTHS,
)
