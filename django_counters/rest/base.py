"""What all views of the API have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, NoReturn

from django.db import connections
from django.utils import timezone
from rest_framework import exceptions as drf
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.views import APIView

from django_counters.access import BEACON, Access
from django_counters.kinds.admission import admit
from django_counters.rest.bodies import Body, checker
from django_counters.rest.idempotency import Work, once_of
from django_counters.rest.parsing import OnlyJSON, StrictJSONParser, check_carried
from django_counters.rest.permissions import CounterPermission, MayRead, is_anonymous, is_user
from django_counters.rest.problems import Refused, answer
from django_counters.rest.targets import Named, Target, access_to, targets_of
from django_counters.rest.throttling import limit
from django_counters.types import namespace_of

NO_SUCH = "There is no such counter."
# Seconds. To refuse what would be admitted is worse than to wait for it.
LIMIT_TIMEOUT = 0.5


class CounterView(APIView):
    """A view of counters. Its one `CounterPermission` says what its requests do with them."""

    parser_classes = (StrictJSONParser,)
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = OnlyJSON
    metadata_class = None
    # Nothing is answered to OPTIONS, so that it is not in Allow either.
    http_method_names = ["get", "head", "post"]
    # What a namespace declares holds, whatever the project asks for elsewhere by default.
    permission_classes = ()
    may: ClassVar[type[CounterPermission]]

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        view: Any = super().as_view(**initkwargs)
        # What is answered has been committed, also where requests are transactions.
        view._non_atomic_requests = set(connections)
        return view

    def get_permissions(self) -> list[Any]:
        return [*super().get_permissions(), self.may()]

    def get_exception_handler(self) -> Any:
        return answer

    def target(self, key: str) -> Target:
        """The counter of the URL; see `targets`."""
        return self.targets([key])[key]

    def targets(self, keys: Sequence[str]) -> dict[str, Target]:
        """All of these counters.

        Whether one is unknown or forbidden cannot be told, also not by the time that it takes.

        Raises:
            InvalidKey: one of them is none.
            NotAuthenticated, PermissionDenied, NotFound: one of them cannot be reached in this way.
        """
        permission = self.may()
        for key in keys:
            access = access_to(key)
            if not permission.admits(self.request, self, access):
                self._refuse(permission, access)
        found = self._present(permission, keys)
        if len(found) < len(keys):
            raise drf.NotFound(NO_SUCH)
        return found

    def visible(self, keys: Sequence[str]) -> dict[str, Target]:
        """Those of the counters that can be reached in this way.

        Raises:
            InvalidKey: one of them is none.
        """
        permission = self.may()
        admitted = [key for key in keys if self._admits(permission, key)]
        return self._present(permission, admitted)

    def _present(self, permission: CounterPermission, keys: Sequence[str]) -> dict[str, Target]:
        return {
            key: target
            for key, target in targets_of(keys).items()
            if permission.has_object_permission(self.request, self, target)
        }

    def _admits(self, permission: CounterPermission, key: str) -> bool:
        admitted = permission.admits(self.request, self, access_to(key))
        if not admitted:
            permission.waste(self.request)
        return admitted

    def _refuse(self, permission: CounterPermission, access: Access) -> NoReturn:
        """Say no, in the same way whether or not there is such a counter."""
        permission.waste(self.request)
        if is_anonymous(self.request):
            raise drf.NotAuthenticated
        if MayRead().admits(self.request, self, access):
            raise drf.PermissionDenied
        raise drf.NotFound(NO_SUCH)

    def checked(self, body: type[Body]) -> dict[str, Any]:
        """The body of the request.

        Raises:
            ValidationError: something is wrong with it.
        """
        check_carried(self.request)
        valid: dict[str, Any] = checker(body).run_validation(self.request.data)
        return valid

    def admit_changes(self, changes: Mapping[str, tuple[Target, int]]) -> None:
        """Ask what holds for changes of counters that may be changed: sizes, origins, limits.

        Raises:
            ValidationError, Refused, Throttled, NotFound: they may not be made in this way.
        """
        for key, (target, by) in changes.items():
            self._admit_size(key, target.access, by)
            self._admit_origin(target.access)
        for namespace, group in _by_namespace(changes):
            access = group[0].access
            if access.limit:
                limit(self.request, namespace, access.limit, len(group), timeout=LIMIT_TIMEOUT)
            named = [target.key for target in group if isinstance(target, Named)]
            if admit(named, access.max_counters):
                raise drf.NotFound("There is no such counter, and no room for more of them.")

    def _admit_size(self, key: str, access: Access, by: int) -> None:
        most = access.max_delta if is_user(self.request) else 1
        if abs(by) > most:
            raise drf.ValidationError({"by": [f"{key}: at most {most} at once."]})

    def _admit_origin(self, access: Access) -> None:
        if access.increment != BEACON or is_user(self.request):
            return
        if self.request.META.get("HTTP_ORIGIN", "").lower() not in access.origins:
            raise Refused(403, "origin", "Beacons are taken from declared sites only.")

    def answered(
        self,
        asked: Mapping[str, Any],
        work: Work,
        using: str,
        *,
        joins: bool,
        resumes: bool = False,
    ) -> Response:
        """Do what is asked; with an Idempotency-Key once, and answer as that one was answered."""
        once = once_of(self.request, asked, using, joins=joins, resumes=resumes)
        # The answer is nobody else's, and not to be kept.
        headers = {"Cache-Control": "no-store"}
        if once is None:
            return Response(work(None), headers=headers)
        body, replayed = once.do(work)
        if replayed:
            headers["Idempotent-Replayed"] = "true"
        return Response(self.marked(body, replayed=replayed), headers=headers)

    def marked(self, body: Mapping[str, Any], *, replayed: bool) -> Mapping[str, Any]:
        """An answer that says whether it is that of an earlier request."""
        return {**body, "replayed": replayed}


def _by_namespace(
    changes: Mapping[str, tuple[Target, int]],
) -> Iterable[tuple[str, list[Target]]]:
    groups: dict[str, list[Target]] = {}
    for key, (target, _) in changes.items():
        groups.setdefault(namespace_of(key), []).append(target)
    return groups.items()


def iso(moment: datetime) -> str:
    """A moment as RFC 3339 has it, in UTC."""
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
