"""What is not written for this database yet."""

from __future__ import annotations

from typing import Any, NoReturn

from django.db.utils import NotSupportedError


class Absent:
    """Stands in place of the statements of a topic, and refuses whoever asks for one."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            # Python asks what it is.
            raise AttributeError(name)
        raise NotSupportedError(f"MySQL and MariaDB cannot keep {self._what} yet.")


def absent(what: str) -> Any:
    """The statements of a topic that is refused: ``what`` it keeps."""
    return Absent(what)
