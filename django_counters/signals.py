"""Signals that the app sends."""

from __future__ import annotations

from django.dispatch import Signal

#: Something was found that a person has to look at. Arguments: ``incident``, ``using``.
incident_recorded = Signal()
