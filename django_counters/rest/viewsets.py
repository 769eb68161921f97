"""Counts in view sets of a project's own: ``POST posts/1/likes/increment/``, ``/decrement/``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connections
from drf_spectacular.utils import extend_schema
from rest_framework import decorators, renderers, viewsets
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response

from django_counters import access, errors
from django_counters.fields import counter_fields
from django_counters.rest import actors, bodies, targets, views
from django_counters.rest.base import NO_SUCH, answer_once
from django_counters.rest.bodies import OnlyJSON, StrictJSONParser, check_carried
from django_counters.rest.problems import ApiError, answer
from django_counters.strategies.declaring import MAX_AGE

_Method = TypeVar("_Method", bound=Callable[..., Any])
# What `OfRecord` has of `expose()`, which is not asked here: the view set decides.
_OF_VIEW_SET = access.Access()
_described = extend_schema(
    request={"application/json": bodies.ChangeBody},
    parameters=[bodies.once()],
    responses={(200, "application/json"): bodies.ChangeAnswer},
)


def _route(verb: str) -> Callable[[_Method], _Method]:
    """The action ``POST <record>/<counter>/<verb>/``, which speaks JSON as the API does."""
    # Its stubs promise another type than the methods have.
    untyped: Any = decorators.action
    made: Callable[[_Method], _Method] = untyped(
        detail=True,
        methods=["post"],
        url_path=rf"(?P<counter>\w+)/{verb}",
        parser_classes=[StrictJSONParser],
        renderer_classes=[renderers.JSONRenderer],
        content_negotiation_class=OnlyJSON,
    )
    return made


class CountingViewSet(viewsets.GenericViewSet[Any]):
    """What the actions of `IncrementMixin` and `DecrementMixin` have in common.

    Who may do them is the business of the view set: of its queryset, its permission classes and
    its throttles. With an ``Idempotency-Key`` a request counts once, however often it is sent.
    The body is that of the API: nothing, or JSON with ``by``, ``tags``, ``at`` and ``who``.

    Attributes:
        counter_fields: the fields that can be counted: none, unless you name them.
        counter_max_delta: the most that one request may add or take.
    """

    counter_fields: ClassVar[Collection[str]] = ()
    counter_max_delta: ClassVar[int] = 1

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        view: Any = super().as_view(actions, **initkwargs)
        named = list((actions or {}).values())
        if len(named) == 1 and cls._is_of_counters(named[0]):
            # Commit before the answer, also with ATOMIC_REQUESTS. Other actions stay as they are.
            view._non_atomic_requests = set(connections)
        return view

    @classmethod
    def _is_of_counters(cls, name: str | None) -> bool:
        """Whether an action is one of ours, and none of the project that is called alike."""
        ours = {"increment": IncrementMixin, "decrement": DecrementMixin}
        return name in ours and issubclass(cls, ours[name])

    def _change(self, request: Request, counter: str, sign: int) -> Response:
        target = self._target(counter)
        check_carried(request)
        asked = bodies.checker(bodies.ChangeBody).run_validation(request.data)
        amount = asked.pop("by")
        if amount > self.counter_max_delta:
            raise drf.ValidationError({"by": [f"At most {self.counter_max_delta} at once."]})
        by = sign * amount
        event = actors.event_of_change(request, self, [target], asked, takes=sign < 0)

        def work(token: UUID | None) -> dict[str, Any]:
            return views.change_body(target, by, target.change(by, token, event))

        whole = {"by": by, **targets.told(event)}
        return answer_once(request, whole, work, target.alias, joins=target.joins)

    def get_exception_handler(self) -> Callable[[Exception, Mapping[str, Any]], Response | None]:
        """Errors of counters are answered as the API does, all others as the view set does."""
        own: Any = super().get_exception_handler()
        if not self._is_of_counters(self.action):
            return own  # type: ignore[no-any-return]

        def handle(error: Exception, context: Mapping[str, Any]) -> Response | None:
            mine = isinstance(error, errors.CounterError | ApiError)
            found: Response | None = answer(error, context) if mine else own(error, context)
            return found

        return handle

    def _target(self, name: str) -> targets.OfRecord:
        record = self.get_object()
        if name not in self.counter_fields:
            reason = f"{type(self).__name__}.counter_fields has no {name!r}."
            raise drf.NotFound(reason if settings.DEBUG else NO_SUCH)
        # request.user is a lazy object: it has the model's _meta, and a class of its own.
        model = record._meta.model
        found = [one for one in counter_fields(model) if one.name == name and one.is_whole]
        if not found:
            problem = f"{type(self).__name__}: {model._meta.label} has no counter field {name!r}"
            raise errors.InvalidConfiguration(problem=f"{problem}, or it has decimal places.")
        (field,) = found
        exposed = targets.Exposed(field, _OF_VIEW_SET, model, None)
        key = f"{exposed.label}:{record.pk}"
        declared = (field.recipe, field.measure, MAX_AGE)
        return targets.OfRecord(key, exposed.access, *declared, exposed, record)


class IncrementMixin(CountingViewSet):
    """A view set that counts: ``POST posts/1/likes/increment/`` adds one to a field of the record.

    The action is called ``increment``, so ``get_permissions`` can tell it by ``self.action``.
    """

    @_described
    @_route("increment")
    def increment(self, request: Request, counter: str, **_lookup: Any) -> Response:
        """Add to a counter of the record, by one where nothing is said."""
        return self._change(request, counter, 1)


class DecrementMixin(CountingViewSet):
    """A view set that takes back: ``POST posts/1/likes/decrement/`` takes one from a field.

    The action is called ``decrement``. Where each actor counts once, it takes back what the same
    one has counted.
    """

    @_described
    @_route("decrement")
    def decrement(self, request: Request, counter: str, **_lookup: Any) -> Response:
        """Take from a counter of the record, by one where nothing is said."""
        return self._change(request, counter, -1)
