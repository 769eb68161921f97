"""Signals that the app sends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.dispatch import Signal

logger = logging.getLogger("django_counters")


class News(Signal):
    """A signal of a change that is done, which no receiver can undo."""

    def tell(self, sender: type, **named: object) -> None:
        """Call all receivers. Their errors are logged: the change was done."""
        try:
            self.send_robust(sender, **named)
        except Exception:
            # Django cannot log the error of a receiver that has no name, such as a partial.
            logger.exception("A receiver of a signal failed.")


class PlainSignal(News):
    """A signal whose receivers are plain functions that return at once.

    It is also sent from within an event loop, which a receiver that waits would stop.
    """

    def connect(self, receiver: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Connect a receiver, as `django.dispatch.Signal` does.

        Raises:
            TypeError: it is a coroutine function.
        """
        if iscoroutinefunction(receiver) or iscoroutinefunction(type(receiver).__call__):
            raise TypeError(f"{receiver!r} has to be a plain function: it is called at once")
        super().connect(receiver, *args, **kwargs)


#: Something was found that a person has to look at, and that is committed. What receivers raise is
#: logged. Arguments: ``incident``, ``using``.
incident_recorded = News()

#: A counter was adjusted, and that is committed. Arguments: ``adjustment``, ``using``.
counter_adjusted = Signal()

#: A call has changed counters: sent in its process, once for each batch, before the caller's
#: transaction ends, so changes that are rolled back later were told, too. Not sent for a repeated
#: token (but for that of a cached counter in a transaction: before the commit it is not known), for
#: an error, or for collected changes before they are applied. What receivers raise is logged.
#: Arguments: ``batch``, ``values``, ``strategy``, ``subject``, ``using``.
batch_applied = PlainSignal(use_caching=True)

#: A flush or a rollup has ended without an error. What receivers raise is logged. Arguments:
#: ``work``, ``using``, ``seconds``, ``report``.
upkeep_done = PlainSignal()
