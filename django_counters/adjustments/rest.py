"""Requests for adjustments over HTTP: who may see them, and a second person who decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import QuerySet
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.access import CLOSED, Access
from django_counters.adjustments import approval
from django_counters.adjustments.adjustment import preview
from django_counters.adjustments.orders import Person, person_of
from django_counters.models import AdjustmentRequest
from django_counters.rest.base import PersonView, answer_once, iso
from django_counters.rest.bodies import (
    NUMBER,
    ApproveBody,
    ApprovedAnswer,
    RejectBody,
    RequestAnswer,
    RequestListAnswer,
    RequestReadAnswer,
    RequestsQuery,
    described,
    once,
    queried,
)
from django_counters.rest.exposed import Exposed, exposed_as, labels_of
from django_counters.rest.listing import HEADERS, no_cursor, text_of, url_after
from django_counters.rest.permissions import MayAdjust, MayApprove
from django_counters.rest.problems import Refused
from django_counters.rest.targets import Target, access_to, targets_of
from django_counters.types import key_range, namespace_of, why_no_key

NO_SUCH = "There is no such request."


class SeenView(PersonView):
    """A view of requests: who may approve sees all of a counter, and who may adjust their own."""

    may = MayApprove

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.need_person()
        # Each asks a rule of the project with one object, so for all rows of a list.
        self._approves, self._adjusts = MayApprove(), MayAdjust()

    def may_approve(self, access: Access) -> bool:
        """Whether the user may decide on requests of some counter with this access."""
        return self._approves.admits(self.request, self, access)

    def may_ask(self, access: Access) -> bool:
        """Whether the user may ask for adjustments of some counter with this access."""
        return self._adjusts.admits(self.request, self, access)

    def decides(self, target: Target) -> bool:
        """Whether the user may decide on requests for this counter, but for their own."""
        return self._approves.has_object_permission(self.request, self, target)

    def sees(self, row: AdjustmentRequest, target: Target) -> bool:
        """Whether the user may see a request for this counter."""
        if self.decides(target):
            return True
        # By id and name, both: another account may have the id, or take the name.
        is_own = approval.requester_of(row) == self.me
        return is_own and self._adjusts.has_object_permission(self.request, self, target)

    @property
    def me(self) -> Person:
        """The user."""
        return person_of(self.request.user, "a user")

    def found(self, number: str) -> tuple[AdjustmentRequest, Target]:
        """A request that the user may see, and its counter.

        Raises:
            NotFound: there is none.
        """
        row = _row(number)
        # A request that is not there takes as long to refuse as one that is hidden.
        accesses = {} if row is None else {one: access_to(f"{one}:") for one in _labels_of(row)}
        for label, access in (accesses or {"": CLOSED}).items():
            is_admitted = self.may_approve(access) or self.may_ask(access)
            target = _targets(label, [row]).get(row.pk) if is_admitted and row else None
            if row and target and self.sees(row, target):
                return row, target
        raise drf.NotFound(NO_SUCH)


@described("requests", RequestListAnswer, RequestsQuery)
class RequestsView(SeenView):
    """Read the requests for adjustments of a namespace, page by page."""

    def get(self, request: Request) -> Response:
        """The latest first. You see all of them if you may approve, else your own.

        A page may have fewer than `limit`, even if `next` is not null.
        """
        given = queried(RequestsQuery, dict(request.query_params.lists()))
        label = given["namespace"]
        rows = self._rows(label)
        if "state" in given:
            rows = rows.filter(state=given["state"])
        if "cursor" in given:
            rows = rows.filter(pk__lt=_number_of(given["cursor"]))
        found = list(rows.order_by("-pk")[: given["limit"] + 1])
        page, is_more = found[: given["limit"]], len(found) > given["limit"]
        body = {
            "next": url_after(request, str(page[-1].pk)) if is_more else None,
            "previous": None,
            "results": list(self._shown(label, page)),
        }
        return Response(body, headers=HEADERS)

    def _rows(self, label: str) -> QuerySet[AdjustmentRequest]:
        """Those of the namespace, or of the field; only their own for who may not approve.

        Raises:
            PermissionDenied, NotFound: the user may do neither.
        """
        # With a colon it is the beginning of a key.
        access = CLOSED if ":" in label else access_to(f"{label}:")
        all_of_them, own = self.may_approve(access), self.may_ask(access)
        if not (all_of_them or own):
            self.refuse(access)
        exposed = exposed_as(label)
        rows = AdjustmentRequest._base_manager.using(router.db_for_write(AdjustmentRequest))
        if exposed is not None:
            rows = rows.filter(field=exposed.field.table.label)
        else:
            first, end = key_range(label)
            rows = rows.filter(field="", key__gte=first, key__lt=end)
        if all_of_them:
            return rows
        return rows.filter(requester_id=self.me.id, requester_name=self.me.name)

    def _shown(self, label: str, page: Sequence[AdjustmentRequest]) -> Iterable[Mapping[str, Any]]:
        targets = _targets(label, page)
        for row in page:
            target = targets.get(row.pk)
            if target and self.sees(row, target):
                yield request_body(target.key, row)


@described("request", RequestReadAnswer, NUMBER)
class RequestView(SeenView):
    """Read a request for an adjustment."""

    def get(self, request: Request, number: str) -> Response:  # noqa: ARG002
        """While it waits, `value` and `last` are what an approver must have seen."""
        row, target = self.found(number)
        value = last = None
        if row.state == AdjustmentRequest.State.WAITING:
            seen = preview(target.ref, to=row.to, by=row.by)
            value, last = seen.before, seen.last
        body = {**request_body(target.key, row), "value": value, "last": last}
        return Response(body, headers=HEADERS)


class DecideView(SeenView):
    """A decision on a request of somebody else."""

    def decidable(self, number: str) -> tuple[AdjustmentRequest, Target]:
        """A request that the user may decide on. It may be decided already.

        Raises:
            NotFound: there is none that the user may see.
            PermissionDenied, Refused: the user sees it, and may not decide on it.
        """
        row, target = self.found(number)
        if not self.decides(target):
            raise drf.PermissionDenied
        if approval.requester_of(row).is_same(self.me):
            raise Refused(403, "own-request", "Another person has to decide on it.")
        return row, target


@described("approve", ApprovedAnswer, NUMBER, once(), body=ApproveBody)
class ApproveView(DecideView):
    """Approve another person's request."""

    def post(self, request: Request, number: str) -> Response:
        """One step decides and adjusts. If several people decide at once, one does."""
        row, target = self.decidable(number)
        asked = self.checked(ApproveBody)
        self.admit_changes({target.key: (target, 0)}, {})

        def work(_: object) -> dict[str, Any]:
            decided, made = approval.approve(
                row.pk,
                **asked,
                approver=request.user,
                request_id=self.request_id,
                using=row._state.db,
            )
            told = {"before": made.before, "value": made.after, "applied": made.delta}
            return {**request_body(target.key, decided), **told, "replayed": False}

        return answer_once(request, asked, work, target.alias, joins=True)


@described("reject", RequestAnswer, NUMBER, once(), body=RejectBody)
class RejectView(DecideView):
    """Reject another person's request."""

    def post(self, request: Request, number: str) -> Response:
        """Changes no counter."""
        row, target = self.decidable(number)
        asked = self.checked(RejectBody)
        # It needs no counter, so it makes none.
        self.charge_changes(namespace_of(target.key), target.access)

        def work(_: object) -> dict[str, Any]:
            decided = approval.reject(row.pk, **asked, actor=request.user, using=row._state.db)
            return {**request_body(target.key, decided), "replayed": False}

        return answer_once(request, asked, work, target.alias, joins=True)


def request_body(key: str, row: AdjustmentRequest) -> dict[str, Any]:
    """What is told of a request."""
    return {
        "id": row.pk,
        "key": key,
        "to": row.to,
        "by": row.by,
        "expected": row.expected,
        "reason": row.reason,
        "case": row.case,
        "allow_below_floor": row.allow_below_floor,
        "requester": row.requester_name,
        "created_at": iso(row.created_at),
        "state": row.state,
        "decider": row.decider_name or None,
        "decided_at": None if row.decided_at is None else iso(row.decided_at),
        "note": row.note,
        "adjustment": row.adjustment,
    }


def _row(number: str) -> AdjustmentRequest | None:
    if not (number.isascii() and number.isdecimal()):
        return None
    try:
        row = approval.find(int(number))
    except (AdjustmentRequest.DoesNotExist, ValueError):
        # A number may have more digits than Python converts.
        return None
    return row if str(row.pk) == number else None


def _labels_of(row: AdjustmentRequest) -> list[str]:
    """What the name of its counter may begin with in the API."""
    if row.field:
        return labels_of(row.field)
    label = namespace_of(row.key)
    # In the API that is a record, whoever has named a counter so.
    return [] if exposed_as(label) else [label]


def _targets(label: str, rows: Sequence[AdjustmentRequest]) -> dict[int, Target]:
    """The counters of requests by their numbers, without those that are gone or elsewhere."""
    exposed = exposed_as(label)
    names = {row.pk: row.key for row in rows} if exposed is None else _names(exposed, rows)
    # Of a row that was made by hand the API cannot speak.
    found = targets_of(name for name in set(names.values()) if why_no_key(name) is None)
    # A record of another database may have the same key, and is not the one to adjust.
    targets = {name: target for name, target in found.items() if target.can_be_asked_for}
    return {number: targets[name] for number, name in names.items() if name in targets}


def _names(exposed: Exposed, rows: Sequence[AdjustmentRequest]) -> dict[int, str]:
    """The names of the counters of a field. A child model may have another key than its parent."""
    owner: Any = exposed.field.model._meta.pk
    keys: dict[int, Any] = {}
    for row in rows:
        # In some databases a UUID has another text than in the API.
        with suppress(ValidationError):
            keys[row.pk] = owner.to_python(row.key)
    records = exposed.queryset().filter(**{f"{owner.attname}__in": set(keys.values())})
    found = dict(records.values_list(owner.attname, "pk"))
    return {number: f"{exposed.label}:{found[key]}" for number, key in keys.items() if key in found}


def _number_of(cursor: str) -> int:
    text = text_of(cursor)
    if not (text.isascii() and text.isdecimal() and text == text.lstrip("0")):
        raise no_cursor()
    try:
        return int(text)
    except ValueError:
        raise no_cursor() from None
