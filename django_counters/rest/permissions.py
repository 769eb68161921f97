"""Who may do what with which counter: nobody, unless it is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.auth.models import AnonymousUser
from django.utils.module_loading import import_string
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from django_counters.access import ANYONE, AUTHENTICATED, BEACON, NOBODY, PERMISSION, STAFF
from django_counters.features import actions

if TYPE_CHECKING:
    # It imports the permissions and throttles of the settings, which may be these.
    from rest_framework.views import APIView

    from django_counters.access import Access
    from django_counters.rest.targets import Target

_PERMISSIONS = {
    "read": "django_counters.view_counter",
    "increment": "django_counters.increment_counter",
    "decrement": "django_counters.decrement_counter",
    "adjust": "django_counters.adjust_counter",
    "list": "django_counters.view_counter",
    "approve": "django_counters.approve_adjustment",
}


class CounterPermission(BasePermission):
    """Applies the rule that the namespace, or ``expose()``, declares for one action.

    The views of this package check each counter twice: before they look it up, and with it.
    A view of your own calls ``self.check_object_permissions(request, target)`` for each of
    ``django_counters.rest.targets.targets_of([key])``.
    """

    action: ClassVar[str]

    def __init__(self) -> None:
        self._rules: dict[str, Any] = {}

    def admits(self, request: Request, view: APIView, access: Access) -> bool:
        """Whether the request may act on any counter with this access."""
        rule = access.rule(self.action)
        if rule not in _RULES:
            return bool(self._own(rule).has_permission(request, view))
        admitted = _RULES[rule](request, self.action)
        if not admitted and rule != PERMISSION:
            # A forbidden counter and an unknown one take the same time to refuse.
            _has_permission(request, self.action)
        return admitted

    def has_object_permission(self, request: Request, view: APIView, obj: Target) -> bool:
        """Whether the request may act on this counter."""
        if not self.admits(request, view, obj.access):
            return False
        rule = obj.access.rule(self.action)
        if rule in _RULES:
            return True
        return bool(self._own(rule).has_object_permission(request, view, obj))

    def _own(self, rule: str) -> Any:
        """The permission of the project that is a rule: one for all counters of a call."""
        if rule not in self._rules:
            found = self._rules[rule] = import_string(rule)()
            if isinstance(found, HasScope):
                # Not that of the view: an increment may ask who may adjust.
                found.action = self.action
        return self._rules[rule]


class MayRead(CounterPermission):
    """May read the value of a counter."""

    action = "read"


class MayList(CounterPermission):
    """May list the counters of a namespace whose names begin in one way, with their values."""

    action = "list"


class MayIncrement(CounterPermission):
    """May add to a counter."""

    action = "increment"


class MayDecrement(CounterPermission):
    """May subtract from a counter."""

    action = "decrement"


class MayAdjust(CounterPermission):
    """May adjust a counter, with a reason that is kept."""

    action = "adjust"


class MayApprove(CounterPermission):
    """May see and decide on requests for adjustments of a counter, except on their own."""

    action = "approve"


class HasScope(BasePermission):
    """A rule: admits a request whose scopes name the action and the counter.

    A scope is an action, a colon and a key: ``increment:votes:tea``. A ``*`` at the end stands for
    how the key goes on, and one in place of the action for every action. ``list`` needs a ``*`` at
    the end. A class that extends this one says where the scopes of a request are.
    """

    #: The action that the rule is asked for; the permission that asks sets it.
    action: str = ""
    _asked: tuple[Request, tuple[str, ...]] | None = None

    def scopes_of(self, request: Request) -> Iterable[str]:
        """Those of the token, by the name ``scope``: a text with spaces between them, or a list."""
        auth: Any = request.auth
        found = auth.get("scope") if hasattr(auth, "get") else getattr(auth, "scope", None)
        if isinstance(found, str):
            return found.split()
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether there is a counter for which a scope admits the action."""
        return super().has_permission(request, view) and any(self._keys_of(request))

    def has_object_permission(self, request: Request, view: APIView, obj: Target) -> bool:
        """Whether a scope admits the action for this counter."""
        # A list has a target for the beginning of its keys, which no scope for one key admits.
        whole = self.action != "list"
        admitted = any(
            obj.key.startswith(one[:-1]) if one.endswith("*") else whole and obj.key == one
            for one in self._keys_of(request)
        )
        return admitted and super().has_object_permission(request, view, obj)

    def _keys_of(self, request: Request) -> Iterator[str]:
        if self._asked is None or self._asked[0] is not request:
            self._asked = request, tuple(self.scopes_of(request))
        for scope in self._asked[1]:
            action, _, pattern = scope.partition(":")
            if self.action and action in ("*", self.action):
                yield pattern


def user_of(request: Request) -> Any:
    """The user; an `AnonymousUser` also where ``UNAUTHENTICATED_USER`` is None."""
    user: Any = request.user
    return AnonymousUser() if user is None else user


def is_user(request: Request) -> bool:
    """Whether a user is logged in. A token without a user does not count."""
    return bool(user_of(request).is_authenticated)


def is_anonymous(request: Request) -> bool:
    """Whether the request has neither a user nor a token."""
    return not is_user(request) and request.auth is None


def _has_permission(request: Request, action: str) -> bool:
    return bool(user_of(request).has_perm(_PERMISSIONS.get(action) or actions()[action]))


_RULES: Mapping[str, Callable[[Request, str], bool]] = {
    NOBODY: lambda *_: False,
    ANYONE: lambda *_: True,
    BEACON: lambda *_: True,
    AUTHENTICATED: lambda request, _: is_user(request),
    STAFF: lambda request, _: is_user(request) and bool(user_of(request).is_staff),
    PERMISSION: _has_permission,
}
