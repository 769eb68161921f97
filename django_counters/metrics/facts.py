"""Facts: the state of one database's counters, read part by part. Changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from django.db import Error, InterfaceError, OperationalError, connections, router
from django.db.models import Count, Max
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from django_counters import access, clock, errors, reading
from django_counters.adjustments.models import AdjustmentRequest, CounterAdjustment
from django_counters.features import Feature, Finding, GaugeValue
from django_counters.redis.commands import ServerRefused
from django_counters.registry import registry
from django_counters.tables import CounterIncident, schema
from django_counters.upkeep import Stranger, attempted, contained, places, strangers

logger = logging.getLogger("django_counters")
# How long an incident is recent.
RECENT = timedelta(days=7)
# The errors of a server that gives no answer.
UNANSWERED = (errors.CounterUnavailable, errors.OutcomeUnknown, ServerRefused)
# Those of an outage, for which an app isn't to blame.
OUTAGES = (OperationalError, InterfaceError, errors.CounterError, *UNANSWERED)
# Minutes.
PERIODS = (10, 60)
# A rate counts no more entries, to be quick on a busy site.
MOST_ENTRIES = 100_000
_DAY = timedelta(days=1)
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Finding | GaugeValue)


@dataclass(frozen=True, slots=True)
class Away:
    """A part that could not be read, and why."""

    part: str
    reason: str
    error: Exception = field(compare=False, repr=False)


class Part:
    """A part of the state of a database, for the doctor, the overview and metrics.

    Its metrics are gauges of its app. An error leaves it unknown: its value in
    ``django_counters_up`` is 0, the number of findings isn't told, and the doctor raises the error.
    """

    #: The value of the label ``part`` of ``django_counters_up``.
    name: str

    #: Its name for people, which is translated.
    label: str

    #: Whether the doctor and each scrape read it; else, only the overview does.
    examined: bool = True

    def read(self, using: str) -> Iterator[Any]:
        """Yield its state, and once more whenever more of it is known."""
        raise NotImplementedError

    def is_up(self, state: Any) -> bool:  # noqa: ARG002
        """Return whether all of it has answered."""
        return True

    def findings(self, state: Any) -> Iterator[Finding]:  # noqa: ARG002
        """Yield its findings. Sends no query."""
        return iter(())

    def values(self, state: Any) -> Iterator[GaugeValue]:  # noqa: ARG002
        """Yield the values of its gauges. Those with equal labels are added up."""
        return iter(())


class Unfolded(NamedTuple):
    """Rows of shards or slots that wait for a rollup.

    Attributes:
        subject: the namespace, or the field.
        strategy: the strategy that the counters have now.
        left_by: the strategy that has written the rows.
        rows: the number of rows.
        counters: the number of their counters.
    """

    subject: str
    strategy: str
    left_by: str
    rows: int
    counters: int


class Incidents(NamedTuple):
    """Recent incidents of one kind: how many, and when the last one was."""

    kind: str
    label: str
    number: int
    last: datetime


class Room(NamedTuple):
    """A namespace: how many of its counters were created over HTTP, and how many may be."""

    namespace: str
    created: int
    most: int


class InflowRate(NamedTuple):
    """How much came in over the last minutes.

    Attributes:
        minutes: the number of minutes.
        amount: how much came in.
        capped: whether there was more, which was not counted.
    """

    minutes: int
    amount: int
    capped: bool = False

    @property
    def per_minute(self) -> float:
        """How much came in within a minute, on average."""
        return self.amount / self.minutes


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of the counters of one database. Unknown parts are None.

    Attributes:
        using: the database.
        tables: the names of all its tables.
        spread: the amount that waits in shards and slots.
        incidents: the recent incidents, by kind.
        requests: how many adjustments wait for a second person.
        rooms: how many counters were created over HTTP.
        strangers: the rows of fields and models that the project has removed.
        guard: the state of the guard of the adjustments, if it is wrong; else empty.
        added: the findings of other apps, and the values of their gauges.
        parts: the states of the parts that features have, by their names.
        away: the parts that could not be read.
    """

    using: str
    tables: frozenset[str] | None = None
    spread: tuple[Unfolded, ...] | None = None
    incidents: tuple[Incidents, ...] | None = None
    requests: int | None = None
    rooms: tuple[Room, ...] | None = None
    strangers: tuple[Stranger, ...] | None = None
    guard: str | None = None
    added: tuple[Finding | GaugeValue, ...] | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    away: tuple[Away, ...] = ()

    @property
    def has_counters(self) -> bool | None:
        """Whether the table of counters exists; None if that is unknown."""
        return None if self.tables is None else schema.COUNTERS.model._meta.db_table in self.tables

    def known(self, name: str) -> Any:
        """Return a part of its own or of a feature; None if it is unknown."""
        return getattr(self, name) if name in PARTS else self.parts.get(name)


def feature_parts() -> dict[str, Part]:
    """Return the parts that features have, by their names. An app that fails has none."""
    of_apps = attempted("", lambda feature: [*feature.parts()], {})
    return {part.name: part for _app, parts in of_apps for part in parts}


def gather(found: Facts, *names: str) -> Facts:
    """Read those of `PARTS` and of features' parts that are not known yet, and add them.

    The number of queries does not depend on how much was counted.
    """
    for more in growing(found, *names):
        found = more
    return found


def growing(found: Facts, *names: str) -> Iterator[Facts]:
    """Read them as `gather` does, and yield after each part, so that a slow part hides no other."""
    of_features = feature_parts()
    for name in names:
        if found.known(name) is not None:
            continue
        part = of_features.get(name)
        label, read = (part.label, part.read) if part else PARTS[name]
        answers: Iterator[Any] = map(read, [found.using])
        states = chain.from_iterable(answers) if part else answers
        while (state := attempt(_(label), found.using, partial(next, states, None))) is not None:
            if isinstance(state, Away):
                yield (found := replace(found, away=(*found.away, state)))
                break
            parts = {**found.parts, name: state}
            found = replace(found, **({"parts": parts} if part else {name: state}))
            yield found


def attempt(part: str, using: str, read: Callable[[], _T]) -> _T | Away:
    """Return a part's value, or `Away`: an error in one part must not hide the others."""
    block = contained(using)
    try:
        with block:
            return read()
    except Exception as error:
        if not isinstance(error, (Error, errors.CounterError, *UNANSWERED)):
            logger.exception("%s of the database %s cannot be asked.", part, using)
        return Away(part, reason_of(error), error)


def added(
    using: str,
    hook: Callable[[Feature, str], Iterable[_F]],
    raised: tuple[type[Exception], ...] = (),
) -> Iterator[_F | Finding]:
    """Yield the results of a hook. Its error is a finding; those in ``raised`` are raised."""
    failed: dict[str, str] = {}
    for _app, results in attempted(using, lambda feature: [*hook(feature, using)], failed, raised):
        yield from results
    text = _("the app failed: %(error)s (the log has more)")
    for app, error in failed.items():
        yield Finding(app, "", 0, 0, text % {"error": error}, needed=True)


def local_findings(using: str) -> Iterator[Finding | GaugeValue]:
    """Yield the findings and gauges of features that need no database."""
    return added(using, lambda feature, using: _expected(feature, feature.local_findings(using)))


def _findings_of(feature: Feature, using: str) -> Iterator[Finding | GaugeValue]:
    # An error is reported here, once.
    feature.parts()
    return _expected(feature, feature.findings(using))


def _expected(
    feature: Feature, findings: Iterable[Finding | GaugeValue]
) -> Iterator[Finding | GaugeValue]:
    """Yield the findings of a feature, and its gauges that a scrape expects."""
    gauges = feature.gauges()
    for finding in findings:
        if isinstance(finding, GaugeValue) and finding.gauge not in gauges:
            undeclared = _("%(gauge)s is not among the gauges of its app, and not shown")
            action = undeclared % {"gauge": finding.gauge.name}
            yield Finding("metrics", "", 0, 0, action, needed=True)
        else:
            yield finding


def _spread(using: str) -> tuple[Unfolded, ...]:
    """Return the shards and slots that wait for a rollup."""
    found = []
    for place in places(using):
        if place.strategy:
            left = place.left or place.folding.left()
            if left.rows:
                found.append(Unfolded(place.label, place.strategy, "slotted", *left))
        else:
            for namespace, left in place.folding.namespaces().items():
                strategy = registry.policy(f"{namespace}:" if namespace else "").recipe.strategy
                subject = namespace or _("(no namespace)")
                found.append(Unfolded(subject, strategy, "sharded", *left))
    return tuple(found)


def wrong(subject: str, strategy: str, text: str, command: str = "", **told: object) -> Finding:
    """Return a finding that needs a person. Its text has placeholders, as for the command."""
    action = text % {"command": command, **told}
    return Finding(subject, strategy, 0, 0, action, needed=True, command=command)


def says_more(subject: str, strategy: str, problem: str, command: str) -> Finding:
    """Return a problem with a message of its own. The command says what can be done."""
    more = _("%(command)s says more")
    return wrong(subject, strategy, f"%(problem)s ({more})", command, problem=problem)


def reason_of(error: Exception) -> str:
    """Return the first line of a server's or driver's error."""
    text = error.reason if isinstance(error, errors.CounterUnavailable) else str(error)
    return text.strip().partition("\n")[0].rstrip(".")


def _incidents(using: str) -> tuple[Incidents, ...]:
    """Return the recent incidents of each kind."""
    if not router.allow_migrate_model(using, CounterIncident):
        return ()
    labels = {kind: str(label) for kind, label in CounterIncident.Kind.choices}
    recent = CounterIncident._base_manager.using(using).filter(found_at__gt=clock.now() - RECENT)
    kinds = recent.values("kind").annotate(number=Count("pk"), last=Max("found_at"))
    return tuple(
        Incidents(row["kind"], labels.get(row["kind"], row["kind"]), row["number"], row["last"])
        for row in kinds.order_by("kind")
    )


def _rooms(using: str) -> tuple[Room, ...]:
    """Return the namespaces in which the API may create counters in this database."""
    if schema.COUNTERS.writing() != using:
        return ()
    caps = {
        namespace: policy.access.max_counters
        for namespace, policy in registry.policies().items()
        if policy.access.creates
    }
    created = reading.values_of(map(access.created_key, caps), using)
    return tuple(Room(name, created[access.created_key(name)], most) for name, most in caps.items())


def _requests(using: str) -> int:
    waits = AdjustmentRequest.State.WAITING
    return AdjustmentRequest._base_manager.using(using).filter(state=waits).count()


def _guard(using: str) -> str:
    """Return the state of the adjustments' guard, if it is wrong."""
    if not router.allow_migrate_model(using, CounterAdjustment):
        return ""
    from django_counters.adjustments import guard

    found = guard.state(using)
    return "" if found == guard.wanted_state(using) else found


_TO_DO = gettext_noop("work to do")
# All parts in their order: the name for people, and how to read it.
PARTS: Mapping[str, tuple[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "tables": (
            gettext_noop("database"),
            lambda using: frozenset(connections[using].introspection.table_names()),
        ),
        "spread": (gettext_noop("shards and slots"), _spread),
        "incidents": (gettext_noop("incidents"), _incidents),
        "rooms": (_TO_DO, _rooms),
        "strangers": (_TO_DO, lambda using: tuple(strangers(using))),
        "guard": (_TO_DO, _guard),
        "added": (_TO_DO, lambda using: tuple(added(using, _findings_of, OUTAGES))),
        "requests": (gettext_noop("requests"), _requests),
    }
)
