"""Tells developers of a number that was assigned to a counter and that ``save()`` did not write."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection
from typing import Any, NamedTuple

from django.db import models
from django.db.models.signals import post_save

from django_counters.errors import AssignmentIgnored

_ASSIGNED = "counters_assigned"
_PASSED_OVER = "counters_passed_over"
# The warnings told of the lines of each file: as Python's own, which would be kept on its modules.
_told: dict[str, dict[Any, Any]] = {}


class Assigned(NamedTuple):
    """Where a number was assigned."""

    file: str
    line: int


def note(instance: models.Model, name: str) -> None:
    """Keep the line that assigned a counter of a saved instance, to be told of when it is saved."""
    frame = sys._getframe(3)
    line = Assigned(frame.f_code.co_filename, frame.f_lineno)
    _keep(instance, _ASSIGNED, {**_kept(instance, _ASSIGNED), name: line})
    # Projects that assign nothing do not pay for a receiver of every save.
    post_save.connect(_tell, dispatch_uid=__name__)


def forget(instance: models.Model, name: str) -> None:
    """Drop what was noted: the row has the number, or will get it."""
    for kept in (_ASSIGNED, _PASSED_OVER):
        left = {key: line for key, line in _kept(instance, kept).items() if key != name}
        _keep(instance, kept, left)


def save(instance: models.Model, name: str, *, inserts: bool) -> None:
    """Note that an UPDATE leaves a counter as it is. It may find no row, and an INSERT follows."""
    if _ASSIGNED not in vars(instance._state):
        return
    if inserts:
        forget(instance, name)
    elif line := _kept(instance, _ASSIGNED).get(name):
        _keep(instance, _PASSED_OVER, {**_kept(instance, _PASSED_OVER), name: line})


def _tell(
    sender: type[models.Model],
    instance: models.Model,
    update_fields: Collection[str] | None = None,
    **_: Any,
) -> None:
    """Receives ``post_save``."""
    passed_over = _kept(instance, _PASSED_OVER)
    # Django itself may have assigned what the row has: that is known by now, too.
    for name in _kept(instance, _ASSIGNED):
        if update_fields is None or name in update_fields:
            forget(instance, name)
    for name, (file, line) in passed_over.items():
        told = f"{sender._meta.label}.{name} was assigned, and save() does not write it."
        remedy = "Count with increment(), correct it with adjust(), or set it with update()."
        known = _told.setdefault(file, {})
        warnings.warn_explicit(f"{told} {remedy}", AssignmentIgnored, file, line, registry=known)


def _kept(instance: models.Model, what: str) -> dict[str, Assigned]:
    kept: dict[str, Assigned] = vars(instance._state).get(what, {})
    return kept


def _keep(instance: models.Model, what: str, lines: dict[str, Assigned]) -> None:
    # Never changed where it is: a copy of an instance has the same one.
    if lines or what in vars(instance._state):
        vars(instance._state)[what] = lines
