"""Compares what writers were told with what is in the totals."""

from __future__ import annotations

import json
from collections import Counter as Sums
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import psycopg

from tests.faults.cells import PERIODS, Cells, cells_of, wrong_cells
from tests.faults.people import People
from tests.faults.readers import SURVEY, TOO_MUCH, WAITING
from tests.faults.scene import HOT, Scene, lines
from tests.faults.writers import COMMITTED, COUNTED, PEOPLE, REFUSED, TOKENED, UNKNOWN

INCIDENTS = (
    "SELECT kind, extract(epoch FROM found_at)::float, detail FROM django_counters_counterincident"
)
# Incidents of a Redis that has lost something.
NOTICED = ("lost", "history")
# Incidents of a process that could not send what was committed.
UNSENT, UNANSWERED = "not sent", "not answered"


class Incident(NamedTuple):
    """One row; those of processes that could not send are told from those of the flush."""

    kind: str
    at: float
    detail: dict[str, Any]

    @property
    def unsent(self) -> dict[str, int]:
        """What a process could not send."""
        own = self.kind in ("lost", "unknown")
        amounts: dict[str, int] = self.detail.get("amounts", {}) if own else {}
        return amounts

    @property
    def what(self) -> str:
        """Its kind, more exactly."""
        if not self.unsent:
            return self.kind
        return UNSENT if self.kind == "lost" else UNANSWERED


class Loss(NamedTuple):
    """What Redis itself lost: when, and the counters that it held before and not after that."""

    at: float
    gone: frozenset[str]


@dataclass
class Verdict:
    """What came of one scene.

    Attributes:
        seed: with it the same chances are drawn again.
        outcomes: by what writers were told, how many increments.
        tokened: the same, of those with a token.
        doubled: counters that have more than was counted.
        refused: counters that have what was said not to be counted.
        outside: counters that were acknowledged and are lost, though Redis did not lose them.
        inside: those that Redis lost.
        hot: attempted, counted, acknowledged, of the counter that many share.
        tagged: the same by tag, where what is counted is its cells.
        cells: counters whose cells are something else than their totals.
        people: counters whose sets have not exactly the actors who were counted.
        met: how many actors are in the set of what many have counted.
        kills: how often flushers killed themselves, by step.
        incidents: what was recorded, by kind.
        silent: moments when Redis lost something for which there is no incident.
        reads: those that contradict the promise, also once Redis has lost something; how many
            there were.
        drained: seconds until nothing waited any more.
        errors: errors that nobody expects.
    """

    seed: int
    outcomes: Sums[str] = field(default_factory=Sums)
    tokened: Sums[str] = field(default_factory=Sums)
    doubled: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    hot: tuple[int, int, int] = (0, 0, 0)
    tagged: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    cells: list[str] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    met: int = 0
    kills: Sums[str] = field(default_factory=Sums)
    incidents: Sums[str] = field(default_factory=Sums)
    silent: list[float] = field(default_factory=list)
    reads: tuple[list[str], int] = field(default_factory=lambda: ([], 0))
    drained: float = 0.0
    errors: str = ""

    def __str__(self) -> str:
        kills = ", ".join(f"{step} {times}" for step, times in sorted(self.kills.items()))
        incidents = ", ".join(f"{kind} {n}" for kind, n in sorted(self.incidents.items()))
        return (
            f"seed {self.seed}: acknowledged {self.outcomes[COUNTED]}"
            f" ({self.tokened[COUNTED]} with a token),"
            f" committed {self.outcomes[COMMITTED]},"
            f" unknown {self.outcomes[UNKNOWN]}, refused {self.outcomes[REFUSED]},"
            f" doubled {len(self.doubled)}, counted though refused {len(self.refused)},"
            f" lost outside Redis's own loss {len(self.outside)}, inside {len(self.inside)};"
            f" hot {self.hot[2]} <= {self.hot[1]} <= {self.hot[0]};"
            f" its cells {', '.join(f'{a} <= {c} <= {b}' for b, c, a in self.tagged.values())};"
            f" wrong cells {len(self.cells)};"
            f" its actors {self.met}, wrong sets {len(self.people)};"
            f" {self.reads[1]} reads, wrong {len(self.reads[0])};"
            f" kills {self.kills.total()} ({kills or 'none'}); incidents {incidents or 'none'};"
            f" drained in {self.drained} s"
        )

    def problems(self, *, loses: bool) -> list[str]:
        """What breaks a promise; ``loses``: Redis lost something."""
        wrong = {
            "errors": self.errors.splitlines()[-1:],
            "counted twice": self.doubled,
            "counted though refused": self.refused,
            "lost though Redis had it": self.outside,
            "lost without an incident": self.silent,
            "wrong reads": self.reads[0],
            "cells that are not what is counted": self.cells,
            "sets that are not who was counted": self.people,
            "quarantined": self.incidents["quarantined"],
            "incidents of a loss that is none": 0 if loses else self.incidents["lost"],
        }
        for name, one in {"": self.hot, **self.tagged}.items():
            attempted, counted, acknowledged = one
            if not (loses or acknowledged <= counted) or counted > attempted:
                wrong[f"the shared counter {name}"] = [str(one)]
        return [f"{what}: {_short(found)}" for what, found in wrong.items() if found]


def _short(found: Any) -> str:
    return f"{len(found)}: {found[:5]}" if isinstance(found, list) else str(found)


def verdict(scene: Scene, url: str, losses: Sequence[Loss]) -> Verdict:
    """Read what the processes of a scene have written down, and its database."""
    found = Verdict(scene.seed)
    told, tags, came = _told(scene)
    with psycopg.connect(url) as database:
        values: dict[str, int] = dict(
            database.execute("SELECT key, value FROM django_counters_counter").fetchall()
        )
        incidents = [Incident(*row) for row in database.execute(INCIDENTS).fetchall()]
    found.incidents = Sums(one.what for one in incidents)
    _compare(found, told, values, incidents)
    cells = cells_of(url)
    found.cells = wrong_cells(cells, values, tags)
    _share(found, scene, values, cells)
    _meet(found, scene, People(url), came, values, loses=bool(losses))
    _excuse(found, losses, [one.at for one in incidents if one.what in NOTICED])
    _collect(found, scene, values, min((loss.at for loss in losses), default=inf))
    return found


def _told(scene: Scene) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    """What writers were told of each key, and the tag and the actor they have counted it with."""
    said = [line.split(" ") for line in lines(scene.path(".").glob("writer*.log"))]
    told = {key: outcome for outcome, key, _, _ in said}
    return told, {key: tag for _, key, tag, _ in said}, {key: who for _, key, _, who in said}


def _meet(
    found: Verdict,
    scene: Scene,
    people: People,
    came: Mapping[str, str],
    values: Mapping[str, int],
    *,
    loses: bool,
) -> None:
    """Look for each actor who was counted, and for anybody else."""
    found.people = people.wrong(values, came, [HOT])
    said = [line.split(" ") for line in lines(scene.path(".").glob(f"{PEOPLE}*.log"))]
    if people.has_others(HOT, [who for _, who in said]):
        found.people.append(f"somebody else in {HOT}")
    if not loses and people.lacks(HOT, [who for told, who in said if told == COUNTED]):
        found.people.append(f"somebody is not in {HOT}")
    found.met = people.number(HOT)


def _share(found: Verdict, scene: Scene, values: Mapping[str, int], cells: Cells) -> None:
    """Compare what many have counted, by tag, with what they were told."""
    counted = cells.get((HOT, max(PERIODS)), {})
    said = [line.split(" ") for line in lines([scene.path("hot.log")])]
    found.tagged = {
        f"with {tag or 'no tag'}": (int(attempted), counted.get(tag, 0), int(acknowledged))
        for attempted, acknowledged, tag in said
    }
    attempted, _, acknowledged = map(sum, zip(*found.tagged.values(), strict=True))
    found.hot = attempted, values.get(HOT, 0), acknowledged


def _compare(
    found: Verdict,
    told: Mapping[str, str],
    values: Mapping[str, int],
    incidents: list[Incident],
) -> None:
    """Each key has been counted once, or not at all."""
    found.outcomes = Sums(told.values())
    found.tokened = Sums(outcome for key, outcome in told.items() if key.endswith(TOKENED))
    strange = values.keys() - told.keys() - {HOT}
    found.doubled = sorted(strange | {key for key in told if values.get(key, 0) not in (0, 1)})
    present = {key for key in told if values.get(key, 0)}
    # What could not be sent after COMMIT is known by name; with some it is known to be lost.
    named = {key: one.what for one in incidents for key in one.unsent}
    never = {key for key, what in named.items() if what == UNSENT}
    never |= {key for key, outcome in told.items() if outcome == REFUSED}
    found.refused = sorted(present & never)
    due = {key for key, outcome in told.items() if outcome in (COUNTED, COMMITTED)}
    found.outside = sorted(due - present - named.keys())


def _excuse(found: Verdict, losses: Sequence[Loss], noticed: list[float]) -> None:
    """Set apart what Redis lost, and look whether that was noticed."""
    lost = frozenset(found.outside)
    gone = frozenset[str]().union(*(loss.gone for loss in losses))
    found.outside, found.inside = sorted(lost - gone), sorted(lost & gone)
    for loss in losses:
        if loss.gone & lost and not any(at > loss.at for at in noticed):
            found.silent.append(loss.at)


def _collect(found: Verdict, scene: Scene, values: Mapping[str, int], first_loss: float) -> None:
    folder = scene.path(".")
    found.kills = Sums(lines(folder.glob("kills.log")))
    found.reads = _reads(scene, first_loss)
    found.reads[0].extend(_surveyed(scene, values, first_loss))
    found.errors = "\n".join(lines(folder.glob("errors.log")))
    found.drained = float("".join(lines(folder.glob("drained"))) or "nan")


def _reads(scene: Scene, first_loss: float) -> tuple[list[str], int]:
    """Once Redis has lost something, reads may be lower than before; never too high."""
    number, wrong = 0, []
    for line in lines(scene.path(".").glob("reader.log")):
        at, _, said = line.partition(" ")
        if said.startswith("reads "):
            number = int(said.removeprefix("reads "))
        elif float(at) < first_loss or TOO_MUCH in said:
            wrong.append(said)
    return wrong, number


def _surveyed(scene: Scene, values: Mapping[str, int], first_loss: float) -> list[str]:
    """When nobody counts any more, a read tells what will be landed, also after a loss.

    Only a flush finds a loss: before it, a cached read may know a total that lacks what landed
    while it was lost.
    """
    path = scene.path(SURVEY)
    ways = json.loads(path.read_text()) if path.exists() else {}
    return [
        f"{way} in the end: {key} was {value}, landed {values.get(key, 0)}"
        for way, read in ways.items()
        for key, value in read.items()
        if value != values.get(key, 0) and not _waits_twice(key, first_loss)
        if not (way == WAITING and value < values.get(key, 0) and first_loss < inf)
    ]


def _waits_twice(key: str, first_loss: float) -> bool:
    """Whether it may wait in two places with one token, and be in reads twice until it lands."""
    return key.endswith(TOKENED) and (key.startswith("spill:") or first_loss < inf)
