"""Counts in the memory of a process, and flushes the sums together.

Add ``"django_counters.contrib.buffers"`` to ``INSTALLED_APPS``. Names are resolved on first use:
Django imports this package before it has models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.buffers.counting import Handle as Handle
    from django_counters.contrib.buffers.counting import aflush as aflush
    from django_counters.contrib.buffers.counting import flush as flush
    from django_counters.contrib.buffers.counting import handle as handle

_HOMES = dict.fromkeys(("Handle", "aflush", "flush", "handle"), "counting")
__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
