"""``manage.py counters history``: takes the samples that are due."""

from __future__ import annotations

import json

from django_counters.upkeep.recording import record_history


def history(using: str, *, as_json: bool) -> str:
    """Record the totals of namespaces that ask for it; what the command prints of it."""
    recorded = record_history(using)
    if as_json:
        return json.dumps({"database": using, "recorded": recorded})
    return f"{recorded} totals recorded"
