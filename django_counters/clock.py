"""The only source of "now" in Python. Rows are stamped by the clock of their database."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    """The present moment of this machine; aware if ``USE_TZ`` is on, as everywhere in Django."""
    return timezone.now()
