"""Many counters in one request: all or nothing, or what there is to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.rest.base import CounterView
from django_counters.rest.bodies import ChangeManyBody, ReadManyBody
from django_counters.rest.describing import described
from django_counters.rest.permissions import MayIncrement, MayRead
from django_counters.rest.problems import Refused
from django_counters.rest.reading import readings
from django_counters.rest.targets import Circumstances, Named, Target
from django_counters.rest.views import change_body, reading_body
from django_counters.values import Result
from django_counters.write import pipeline

Changes = Mapping[str, tuple[Target, int]]


@described("read_many")
class ReadManyView(CounterView):
    """``POST bulk/read``: the values of up to 500 counters."""

    may = MayRead

    def post(self, request: Request) -> Response:  # noqa: ARG002
        """Read. What is unknown and what is forbidden is listed alike."""
        asked = self.checked(ReadManyBody)
        keys = list(dict.fromkeys(asked["keys"]))
        targets = self.visible(keys)
        found = readings(targets, exact=asked["consistency"] == "exact")
        body = {
            "counters": [reading_body(key, found[key]) for key in keys if key in found],
            "unknown": [key for key in keys if key not in found],
        }
        return Response(body, headers={"Cache-Control": "no-store"})


@described("increment_many")
class IncrementManyView(CounterView):
    """``POST bulk/increment``: up to 500 counters, all or none of them."""

    may = MayIncrement

    def post(self, request: Request) -> Response:  # noqa: ARG002
        """Count. Each counter is asked for its own permission."""
        asked = self.checked(ChangeManyBody)
        items = {item["key"]: item["by"] for item in asked.pop("counters")}
        circumstances = Circumstances(**asked)
        targets = self.targets(list(items))
        changes = {key: (targets[key], by) for key, by in items.items()}
        joins, using = _place(targets)
        self.admit_changes(changes, circumstances)

        def work(_: object) -> dict[str, Any]:
            counters = _changed(changes, circumstances, using, joins=joins)
            return {"counters": counters, "replayed": False}

        # A key of a counter is no name beside them: its amount is a number.
        told = circumstances.told()
        return self.answered(
            {**told, "counters": items} if told else items, work, using, joins=joins
        )

    def marked(self, body: Mapping[str, Any], *, replayed: bool) -> Mapping[str, Any]:
        """As that of one counter, for each of them."""
        counters = [{**part, "replayed": replayed} for part in body["counters"]]
        return {"counters": counters, "replayed": replayed}


def _place(targets: Mapping[str, Target]) -> tuple[bool, str]:
    """Whether a transaction keeps these counters together, and of which database."""
    joining = {target.joins for target in targets.values()}
    places = {target.alias for target in targets.values()}
    if len(joining) > 1 or len(places) > 1 or (joining == {False} and not _is_one_step(targets)):
        says = "These counters are kept in several places, which no step changes together."
        raise Refused(400, "unsupported", says)
    return joining.pop(), places.pop()


def _is_one_step(targets: Mapping[str, Target]) -> bool:
    """Whether Redis is asked only once for all of these cached counters."""
    recipes = {registry.policy(key).recipe for key, t in targets.items() if isinstance(t, Named)}
    records = sum(not isinstance(target, Named) for target in targets.values())
    return len(recipes) + records == 1


def _changed(
    changes: Changes, circumstances: Circumstances, using: str, *, joins: bool
) -> list[dict[str, Any]]:
    if not joins:
        values = _counted(changes, circumstances)
    else:
        with pipeline.all_or_nothing(using):
            values = _counted(changes, circumstances)
    return [change_body(target, by, values[key]) for key, (target, by) in changes.items()]


def _counted(changes: Changes, circumstances: Circumstances) -> dict[str, Result]:
    """Records first and in one order, so that no two requests wait for each other."""
    values: dict[str, Result] = {}
    named: dict[str, int] = {}
    for key in sorted(changes):
        target, by = changes[key]
        if isinstance(target, Named):
            named[key] = by
        else:
            values[key] = target.change(by, None, circumstances)
    if named:
        tags, at = circumstances
        values.update(Counter.objects.increment_many(named, at=at, tags=tags))
    return values
