"""The messages of errors for users, in their language."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from django_counters import exceptions as errors
from django_counters.templatetags.counters_admin import grouped

_MEANWHILE = _("It was changed at the same time. Nothing was changed; try again.")
_SENT: dict[type[errors.CounterError], str | Promise] = {
    errors.ApprovalRequired: _(
        "A change by %(delta)s needs a second person: one alone may do up to %(limit)s."
    ),
    errors.CeilingExceeded: _("The value may not rise above its ceiling, %(ceiling)s."),
    errors.Contention: _MEANWHILE,
    errors.CounterOverflow: _("The value has to stay between %(low)s and %(high)s."),
    errors.CounterUnavailable: _(
        "The exact value cannot be told at present, because a database or Redis cannot be reached."
        " Nothing was changed."
    ),
    errors.FunctionDenied: _(
        "The database role of this site may not execute %(function)s(). Grant EXECUTE on it."
        " Nothing was changed."
    ),
    errors.InsufficientCount: _("The value may not fall below its floor, %(floor)s."),
    errors.LedgerFenced: _(
        "The ledger was restored elsewhere: run manage.py counters rebase first."
        " Nothing was changed."
    ),
    errors.LedgerIncomplete: _(
        "The ledger has %(found)s of %(expected)s entries in %(partition)s. Restore the others,"
        " then run manage.py counters rebase. Nothing was changed."
    ),
    errors.OutcomeUnknown: _(
        "The connection was lost before the answer. Send this form again: however often it is"
        " sent, it adjusts once."
    ),
    errors.PartitionMissing: _(
        "The ledger has no partition for today: run manage.py counters upkeep partitions first."
        " Nothing was changed."
    ),
    errors.QuotaExceeded: _("In this period %(available)s are left of the quota of %(ceiling)s."),
    errors.ReadOnlyDatabase: _("The database is read-only at present. Nothing was changed."),
    errors.RecordMissing: _("The record is not there any more."),
    errors.RequestDecided: _("%(decider)s has decided before. Nothing was changed."),
    errors.RetryTransaction: _MEANWHILE,
    errors.TokenConflict: _(
        "This form has been sent before, with another number. Look at the present value, and"
        " send it again if it is still meant."
    ),
    errors.TokenExpired: _("This form is too old. Look at the present value, and send it again."),
    errors.ValueChanged: _(
        "The value is %(current)s by now, not %(expected)s. Nothing was changed; look at the new"
        " numbers."
    ),
}


def said(error: errors.CounterError) -> str:
    """The message of an error for the user who sent a form."""
    for kind in type(error).__mro__:
        if kind in _SENT:
            return str(_SENT[kind]) % {name: _shown(part) for name, part in vars(error).items()}
    # Only a programming error leads here.
    return str(error)


def _shown(part: object) -> object:
    return grouped(part) if isinstance(part, int) else part
