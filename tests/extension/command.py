"""The sub-command of the app."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tests.extension.models import Mood

HELP = "show the mood of a counter"


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("key")


def handle(command: BaseCommand, using: str, *, key: str, **_options: Any) -> None:
    """Print the mood.

    Raises:
        CommandError: there is none.
    """
    mood = Mood.objects.using(using).filter(key=key).last()
    if mood is None:
        raise CommandError(f"{key} has no mood. Add one first.")
    command.stdout.write(mood.text)
