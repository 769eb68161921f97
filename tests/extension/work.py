"""The job of the app."""

from __future__ import annotations

from django_counters.features import Done
from tests.extension.errors import NoMood
from tests.extension.models import Mood


def cheer(using: str) -> Done:
    """Cheer everybody up who is sad.

    Raises:
        NoMood: someone is beyond it.
    """
    moods = Mood.objects.using(using)
    if moods.filter(text="beyond").exists():
        raise NoMood("Somebody is beyond all moods.")
    cheered = moods.filter(text="sad").update(text="calm")
    return Done(f"{cheered} cheered up", {"cheered": cheered})
