"""Whose an increment is: the user's who is logged in, or that of a visitor who is known by a text.

Nobody counts for somebody else: a user may be named by who may adjust the counter only, and what
visitors call themselves cannot be the name of a user.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.views import APIView

from django_counters import errors, event
from django_counters.access import ADDRESS
from django_counters.principal import address_of_client, principal_of
from django_counters.rest.permissions import MayAdjust, is_anonymous, is_user, user_of
from django_counters.rest.targets import Target

# Before what visitors call themselves, and before addresses: no primary key begins like that.
VISITOR = "visitor:"
_ADDRESS = "address:"
#: How long a ``who`` may be: with what stands before it, an actor has 64 characters.
WHO_LENGTH = event.WHO_LENGTH - len(VISITOR)


def event_of_change(
    request: Request,
    view: APIView,
    targets: Collection[Target],
    asked: Mapping[str, Any],
    *,
    takes: bool = False,
) -> event.Event:
    """What was told of a change of these counters, and whose it is.

    Args:
        takes: it is a decrement. A condition may need to know who takes back.

    Raises:
        ValidationError: who is not logged in says when it happened.
        PermissionDenied, InvalidActor: as `actor_of_request`; nobody can be taken out of a set.
    """
    if "at" in asked and not is_user(request):
        raise drf.ValidationError({"at": ["Only who is logged in may say when it happened."]})
    if takes and not all(target.has_condition for target in targets):
        if "who" in asked:
            reason = "a decrement takes no one out of a set; leave who out"
            raise errors.InvalidActor(who=asked["who"], reason=reason)
        return event.event_of(**asked)
    who = actor_of_request(request, view, targets, asked.get("who"))
    return event.event_of(**{**asked, "who": who})


def actor_of_request(
    request: Request, view: APIView, targets: Collection[Target], given: str | None
) -> str | None:
    """Whose a change of these counters is; None where nobody says it, or nobody asks.

    Raises:
        PermissionDenied: who is logged in names somebody else.
        InvalidActor: that cannot be anybody.
    """
    if given is not None:
        given = event.actor_of(given)
        if is_anonymous(request):
            return VISITOR + given
        adjusts = MayAdjust()
        if given != _own(request) and not all(
            adjusts.has_object_permission(request, view, target) for target in targets
        ):
            text = "Only users who may adjust the counter may name another actor."
            raise drf.PermissionDenied(text)
        return given
    counting = [target for target in targets if target.counts_actors]
    if not counting:
        return None
    own = _own(request)
    if own is not None:
        return own
    by_address = all(target.access.who == ADDRESS for target in counting)
    if not by_address or not is_anonymous(request):
        return None
    return f"{_ADDRESS}{address_of_client(request)}"[: event.WHO_LENGTH]


def actor_in(request: Request) -> str:
    """Who holds something: the user, as ``who=user`` in Python, else a digest of the client."""
    own = _own(request)
    if own is not None:
        return own
    return _digest("client", principal_of(request))


def _digest(kind: str, text: str) -> str:
    """Return a name for a text that may be too long for an actor."""
    return f"{kind}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:48]}"


def _own(request: Request) -> str | None:
    """Return the user's primary key, as ``increment(who=user)`` does; None without one.

    A key that is too long for an actor becomes a digest.
    """
    user: Any = user_of(request)
    if not is_user(request) or getattr(user, "pk", None) is None:
        return None
    own = str(user.pk)
    if isinstance(user, models.Model) and not isinstance(user, get_user_model()):
        # Users of another model have primary keys of their own.
        own = f"{user._meta.label_lower}:{user.pk}"
    if len(own) > event.WHO_LENGTH:
        own = _digest("user", own)
    return event.actor_of(own)
