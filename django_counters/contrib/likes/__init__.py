"""Likes: each person counts once, and can take it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_counters.features import exported

if TYPE_CHECKING:
    from django_counters.contrib.likes.errors import UnsupportedActors as UnsupportedActors
    from django_counters.contrib.likes.liking import Actor as Actor
    from django_counters.contrib.likes.liking import Toggled as Toggled
    from django_counters.contrib.likes.liking import aactors as aactors
    from django_counters.contrib.likes.liking import actors as actors
    from django_counters.contrib.likes.liking import ahas as ahas
    from django_counters.contrib.likes.liking import ahas_many as ahas_many
    from django_counters.contrib.likes.liking import atoggle as atoggle
    from django_counters.contrib.likes.liking import has as has
    from django_counters.contrib.likes.liking import has_many as has_many
    from django_counters.contrib.likes.liking import toggle as toggle
    from django_counters.contrib.likes.models import CounterActor as CounterActor

_CALLS = ("toggle", "has", "has_many", "actors")
_HOMES = {
    **dict.fromkeys(_CALLS, "liking"),
    **dict.fromkeys((f"a{name}" for name in _CALLS), "liking"),
    "Actor": "liking",
    "CounterActor": "models",
    "Toggled": "liking",
    "UnsupportedActors": "errors",
}

__getattr__, __dir__, __all__ = exported(__name__, _HOMES)
