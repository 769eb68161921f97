"""Who may do what with which counter: nobody, unless it is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.auth.models import AnonymousUser
from django.utils.module_loading import import_string
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from django_counters.access import ANYONE, AUTHENTICATED, BEACON, NOBODY, PERMISSION, STAFF

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
    "history": "django_counters.view_counter",
}


class CounterPermission(BasePermission):
    """Asks what the namespace, or ``expose()``, declares for one action.

    Views of this package ask it for each counter of a request, twice: before the counter is looked
    up, and with it. A view of your own calls ``self.check_object_permissions(request, target)`` for
    each of ``django_counters.rest.targets.targets_of([key])``.
    """

    action: ClassVar[str]

    def admits(self, request: Request, view: APIView, access: Access) -> bool:
        """Whether someone may do it at all, whatever the counter."""
        rule = access.rule(self.action)
        if rule not in _RULES:
            return bool(import_string(rule)().has_permission(request, view))
        admitted = _RULES[rule](request, self.action)
        if not admitted and rule != PERMISSION:
            self.waste(request)
        return admitted

    def has_object_permission(self, request: Request, view: APIView, obj: Target) -> bool:
        """Whether someone may do it with this counter."""
        if not self.admits(request, view, obj.access):
            return False
        rule = obj.access.rule(self.action)
        if rule in _RULES:
            return True
        return bool(import_string(rule)().has_object_permission(request, view, obj))

    def waste(self, request: Request) -> None:
        """Do the work of one who is asked for a permission.

        Else it would take a refusal longer where there is something to be refused.
        """
        _has_permission(request, self.action)


class MayRead(CounterPermission):
    """Admits to the values of a counter."""

    action = "read"


class MayReadHistory(CounterPermission):
    """Admits to how a counter went."""

    action = "history"


class MayIncrement(CounterPermission):
    """Admits to adding to a counter."""

    action = "increment"


class MayDecrement(CounterPermission):
    """Admits to taking from a counter."""

    action = "decrement"


class MayAdjust(CounterPermission):
    """Admits to correcting a counter, with a reason that is kept."""

    action = "adjust"


def user_of(request: Request) -> Any:
    """Who asks; where ``UNAUTHENTICATED_USER`` is None, that is still somebody."""
    user: Any = request.user
    return AnonymousUser() if user is None else user


def is_user(request: Request) -> bool:
    """Whether somebody is logged in; one who has shown no more than some token is not."""
    return bool(user_of(request).is_authenticated)


def is_anonymous(request: Request) -> bool:
    """Whether nobody has said who they are."""
    return not is_user(request) and request.auth is None


def _has_permission(request: Request, action: str) -> bool:
    return bool(user_of(request).has_perm(_PERMISSIONS[action]))


def _nobody(request: Request, action: str) -> bool:  # noqa: ARG001
    return False


def _anyone(request: Request, action: str) -> bool:  # noqa: ARG001
    return True


def _authenticated(request: Request, action: str) -> bool:  # noqa: ARG001
    return is_user(request)


def _staff(request: Request, action: str) -> bool:  # noqa: ARG001
    return is_user(request) and bool(user_of(request).is_staff)


_RULES = {
    NOBODY: _nobody,
    ANYONE: _anyone,
    BEACON: _anyone,
    AUTHENTICATED: _authenticated,
    STAFF: _staff,
    PERMISSION: _has_permission,
}
