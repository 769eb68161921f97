"""Adjustments over HTTP, requests for them, and a second person who decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import router
from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions as drf
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.access import CLOSED, Access
from django_counters.adjustments import approval
from django_counters.adjustments.adjustment import Person, person_of, preview
from django_counters.adjustments.models import CASE_LENGTH, LEAST_REASON, REASON_LENGTH
from django_counters.errors import ApprovalRequired
from django_counters.models import AdjustmentRequest
from django_counters.rest import bodies, permissions, problems, targets
from django_counters.rest.base import PersonView, answer_once, iso
from django_counters.rest.views import HEADERS, change_body, no_cursor, text_of, url_after
from django_counters.types import key_range, namespace_of, result_of, why_no_key

NO_SUCH = "The request doesn't exist."


NUMBER = OpenApiParameter("number", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH)


# Bodies of requests and answers.


class AdjustBody(bodies.Body):
    """The new value (``to``) or the change (``by``), and the reason."""

    to = bodies.WholeNumber(required=False)
    by = bodies.WholeNumber(required=False)
    expected = bodies.WholeNumber(required=False)
    reason = bodies.Text(min_length=LEAST_REASON, max_length=REASON_LENGTH)
    case = bodies.Text(max_length=CASE_LENGTH, required=False, allow_blank=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("to" in attrs) == ("by" in attrs):
            raise serializers.ValidationError("Send either 'to' or 'by'.")
        if attrs.get("by") == 0:
            raise serializers.ValidationError({"by": ["A change by zero is refused."]})
        return attrs


class ApproveBody(bodies.Body):
    """The value that the approver saw, and the last adjustment."""

    expected = bodies.WholeNumber()
    last = bodies.WholeNumber(required=False, help_text="The `last` of the request as it was read.")


class RejectBody(bodies.Body):
    """The reason for a rejection."""

    note = bodies.Text(default="", allow_blank=True, max_length=REASON_LENGTH)


class RequestsQuery(bodies.PageQuery):
    """The parameters of a list of requests for adjustments."""

    state = bodies.Word(choices=AdjustmentRequest.State.values, required=False)


class AdjustAnswer(bodies.ChangeAnswer):
    """An adjustment with its number in the audit."""

    number = serializers.IntegerField()
    before = bodies.Value()


class RequestItem(bodies.Described):
    """A request for an adjustment. One of `to` and `by` is null."""

    id = serializers.IntegerField()
    key = serializers.CharField()
    to = bodies.WholeNumber(allow_null=True)
    by = bodies.WholeNumber(allow_null=True)
    expected = bodies.WholeNumber(help_text="The value that the requester saw.")
    reason = serializers.CharField()
    case = serializers.CharField(allow_blank=True)
    allow_below_floor = serializers.BooleanField(
        help_text="Whether the value may end below the floor. The admin and Python can set it."
    )
    requester = serializers.CharField()
    created_at = serializers.DateTimeField()
    state = bodies.Word(choices=AdjustmentRequest.State.values)
    decider = serializers.CharField(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField(allow_blank=True, help_text="The reason for the rejection.")
    adjustment = serializers.IntegerField(
        allow_null=True, help_text="The number of the adjustment, if approved."
    )


class RequestAnswer(RequestItem):
    """A request after this call."""

    replayed = serializers.BooleanField()


class ApprovedAnswer(RequestAnswer):
    """An approved request and its adjustment."""

    before = bodies.Value()
    value = bodies.Value()
    applied = bodies.WholeNumber()


class RequestReadAnswer(RequestItem):
    """A request. If undecided, with the counter's present value and last adjustment."""

    value = bodies.Value(allow_null=True)
    last = serializers.IntegerField(allow_null=True)


class RequestListAnswer(bodies.ListAnswer):
    """A page of a list. Pages only go forward, so `previous` is always null."""

    results = RequestItem(many=True)  # type: ignore[assignment]


# Views.


@bodies.described(
    "adjust",
    AdjustAnswer,
    bodies.KEY,
    bodies.once(),
    body=AdjustBody,
    asks=RequestAnswer,
    sends={"to": 40, "reason": "Two were counted twice."},
)
class AdjustView(PersonView):
    """Correct a counter."""

    may = permissions.MayAdjust

    def post(self, request: Request, key: str) -> Response:
        """The change, its reason and the user are kept together, forever.

        If the change needs a second person, the answer is 202 with an undecided request.
        """
        target = self.target(key)
        self.need_person()
        order = self.checked(AdjustBody)
        self.admit_changes({key: (target, 0)}, {})

        def work(_: UUID | None) -> dict[str, Any]:
            try:
                row = target.adjust(**order, actor=request.user, request_id=self.request_id)
            except ApprovalRequired:
                if not target.can_be_asked_for:
                    raise
                asked = target.ask(**order, actor=request.user)
                return {**request_body(target.key, asked), "replayed": False}
            more = {"consistency": "exact", "number": row.number, "before": row.before}
            return {**change_body(target, row.delta, result_of(row.after)), **more}

        answer = answer_once(request, order, work, target.alias, joins=True)
        if "state" in answer.data:
            answer.status_code = 202
            answer["Location"] = self._address(answer.data["id"])
        return answer

    def _address(self, number: int) -> str:
        """Return the address of a request, under the project's own path for the API."""
        match = self.request.resolver_match
        return reverse(f"{match.namespace}:request" if match else "request", args=[number])


class SeenView(PersonView):
    """A view of requests. Approvers see all of a counter; users who may adjust see their own."""

    may = permissions.MayApprove

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.need_person()
        # One permission object for all rows of a list.
        self._approves, self._adjusts = permissions.MayApprove(), permissions.MayAdjust()

    def may_approve(self, access: Access) -> bool:
        """Return whether the user may decide on requests of a counter with this access."""
        return self._approves.admits(self.request, self, access)

    def may_ask(self, access: Access) -> bool:
        """Return whether the user may request adjustments of a counter with this access."""
        return self._adjusts.admits(self.request, self, access)

    def decides(self, target: targets.Target) -> bool:
        """Return whether the user may decide on other people's requests for this counter."""
        return self._approves.has_object_permission(self.request, self, target)

    def sees(self, row: AdjustmentRequest, target: targets.Target) -> bool:
        """Return whether the user may see a request for this counter."""
        if self.decides(target):
            return True
        # By id and name: another account may get the id, or the name.
        is_own = approval.requester_of(row) == self.me
        return is_own and self._adjusts.has_object_permission(self.request, self, target)

    @property
    def me(self) -> Person:
        """Return the user."""
        return person_of(self.request.user, "user")

    def found(self, number: str) -> tuple[AdjustmentRequest, targets.Target]:
        """Return a request that the user may see, and its counter.

        Raises:
            NotFound: the request doesn't exist, or is hidden from the user.
        """
        row = _row(number)
        # The refusal of a missing request takes as long as that of a hidden one.
        accesses = (
            {} if row is None else {name: targets.access_to(f"{name}:") for name in _labels_of(row)}
        )
        for label, access in (accesses or {"": CLOSED}).items():
            is_admitted = self.may_approve(access) or self.may_ask(access)
            target = _targets(label, [row]).get(row.pk) if is_admitted and row else None
            if row and target and self.sees(row, target):
                return row, target
        raise drf.NotFound(NO_SUCH)


@bodies.described("requests", RequestListAnswer, RequestsQuery)
class RequestsView(SeenView):
    """Read the requests for adjustments of a namespace, page by page."""

    def get(self, request: Request) -> Response:
        """The latest first. Approvers see all requests, other users their own.

        A page may have fewer than `limit`, even if `next` isn't null.
        """
        given = bodies.queried(RequestsQuery, dict(request.query_params.lists()))
        label = given["namespace"]
        rows = self._rows(label)
        if "state" in given:
            rows = rows.filter(state=given["state"])
        if "cursor" in given:
            last = _number_of(text_of(given["cursor"]))
            if not last:
                raise no_cursor()
            rows = rows.filter(pk__lt=last)
        found = list(rows.order_by("-pk")[: given["limit"] + 1])
        page, is_more = found[: given["limit"]], len(found) > given["limit"]
        body = {
            "next": url_after(request, str(page[-1].pk)) if is_more else None,
            "previous": None,
            "results": list(self._shown(label, page)),
        }
        return Response(body, headers=HEADERS)

    def _rows(self, label: str) -> QuerySet[AdjustmentRequest]:
        """Return the requests of a namespace or field; for users who may not approve, their own.

        Raises:
            PermissionDenied, NotFound: the user may neither approve nor adjust.
        """
        # With a colon the label would be the beginning of a key.
        access = CLOSED if ":" in label else targets.access_to(f"{label}:")
        all_of_them, own = self.may_approve(access), self.may_ask(access)
        if not (all_of_them or own):
            self.refuse(access)
        exposed = targets.exposed_as(label)
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
        counters = _targets(label, page)
        for row in page:
            target = counters.get(row.pk)
            if target and self.sees(row, target):
                yield request_body(target.key, row)


@bodies.described("request", RequestReadAnswer, NUMBER)
class RequestView(SeenView):
    """Read a request for an adjustment."""

    def get(self, request: Request, number: str) -> Response:  # noqa: ARG002
        """If it is undecided, send `value` and `last` back with the approval."""
        row, target = self.found(number)
        value = last = None
        if row.state == AdjustmentRequest.State.WAITING:
            seen = preview(target.ref, to=row.to, by=row.by)
            value, last = seen.before, seen.last
        body = {**request_body(target.key, row), "value": value, "last": last}
        return Response(body, headers=HEADERS)


class DecideView(SeenView):
    """A decision on another person's request."""

    def decidable(self, number: str) -> tuple[AdjustmentRequest, targets.Target]:
        """Return a request that the user may decide on. It may be decided already.

        Raises:
            NotFound: the request doesn't exist, or is hidden from the user.
            PermissionDenied, Refused: the user may not decide on it.
        """
        row, target = self.found(number)
        if not self.decides(target):
            raise drf.PermissionDenied
        if approval.requester_of(row).is_same(self.me):
            raise problems.ApiError(403, "own-request", "Another person must decide on it.")
        return row, target


@bodies.described("approve", ApprovedAnswer, NUMBER, bodies.once(), body=ApproveBody)
class ApproveView(DecideView):
    """Approve another person's request."""

    def post(self, request: Request, number: str) -> Response:
        """Decides and adjusts in one transaction. Of concurrent decisions one succeeds."""
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
            values = {"before": made.before, "value": made.after, "applied": made.delta}
            return {**request_body(target.key, decided), **values, "replayed": False}

        return answer_once(request, asked, work, target.alias, joins=True)


@bodies.described("reject", RequestAnswer, NUMBER, bodies.once(), body=RejectBody)
class RejectView(DecideView):
    """Reject another person's request."""

    def post(self, request: Request, number: str) -> Response:
        """Changes no counter."""
        row, target = self.decidable(number)
        asked = self.checked(RejectBody)
        # A rejection needs no counter, so it creates none.
        self.charge_changes(namespace_of(target.key), target.access)

        def work(_: object) -> dict[str, Any]:
            decided = approval.reject(row.pk, **asked, actor=request.user, using=row._state.db)
            return {**request_body(target.key, decided), "replayed": False}

        return answer_once(request, asked, work, target.alias, joins=True)


# The columns of a request that answers have under their own names.
_SAME = ("to", "by", "expected", "reason", "case", "allow_below_floor")


def request_body(key: str, row: AdjustmentRequest) -> dict[str, Any]:
    """Return the body of a request in an answer."""
    return {
        "id": row.pk,
        "key": key,
        **{name: getattr(row, name) for name in _SAME},
        "requester": row.requester_name,
        "created_at": iso(row.created_at),
        "state": row.state,
        "decider": row.decider_name or None,
        "decided_at": None if row.decided_at is None else iso(row.decided_at),
        "note": row.note,
        "adjustment": row.adjustment,
    }


def _row(number: str) -> AdjustmentRequest | None:
    found = _number_of(number)
    with suppress(AdjustmentRequest.DoesNotExist):
        return None if found is None else approval.find(found)
    return None


def _labels_of(row: AdjustmentRequest) -> list[str]:
    """Return the possible namespaces and field labels of a request's counter in the API."""
    if row.field:
        return targets.labels_of(row.field)
    label = namespace_of(row.key)
    # In the API such a name is a record, even if a named counter has it.
    return [] if targets.exposed_as(label) else [label]


def _targets(label: str, rows: Sequence[AdjustmentRequest]) -> dict[int, targets.Target]:
    """Return {request number: counter}, without missing counters and other databases'."""
    exposed = targets.exposed_as(label)
    names = {row.pk: row.key for row in rows} if exposed is None else _names(exposed, rows)
    # A row that other code made may have an invalid key.
    known = targets.targets_of(name for name in set(names.values()) if why_no_key(name) is None)
    # A record of another database may have the same key. It isn't the one to adjust.
    here = {name: target for name, target in known.items() if target.can_be_asked_for}
    return {number: here[name] for number, name in names.items() if name in here}


def _names(exposed: targets.Exposed, rows: Sequence[AdjustmentRequest]) -> dict[int, str]:
    """Return {request number: name} for a field. A child model may have its own key."""
    owner: Any = exposed.field.model._meta.pk
    keys: dict[int, Any] = {}
    for row in rows:
        # Some databases spell a UUID differently than the API.
        with suppress(ValidationError):
            keys[row.pk] = owner.to_python(row.key)
    records = exposed.queryset().filter(**{f"{owner.attname}__in": set(keys.values())})
    pks = dict(records.values_list(owner.attname, "pk"))
    return {number: f"{exposed.label}:{pks[key]}" for number, key in keys.items() if key in pks}


def _number_of(text: str) -> int | None:
    """Return the number of a request; None if a text isn't the spelling of a number."""
    # A number may have more digits than Python converts.
    with suppress(ValueError):
        return int(text) if str(int(text)) == text and text.isdecimal() else None
    return None
