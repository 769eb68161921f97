"""The result of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from example_project.flow import Flow
from example_project.race import Standing
from example_project.sales import Sale
from example_project.verify import Count, summed, sums_of


@dataclass(frozen=True)
class Report:
    """Everything that was sent, counted and sold, and whether it agrees.

    Attributes:
        by_country: the views of each post from each country on each day.
        by_week: the views of each post by which it is ranked, in each week.
        visitors: how many different visitors each page had.
        by_person: the people who like each post.
        folded: how many rows of shards and slots were rolled up meanwhile.
        entries: how many entries of the ledger were.
        generations: how many generations of increments were landed meanwhile.
        flow: how far the views have come, at the end.
        race: what a plain column lost of the same views, and what our counter lost.
        kills: what was killed, how often.
        incidents: what the app has found out by itself.
        sent_again: how many orders were sent a second time.
        liked_again: how many likes were.
        taken_back: how many likes were taken back.
        turned_away: how many requests were told that nothing was counted, as Redis was away.
        baskets: what became of them.
        ready: how many seconds it took until the first page could be opened.
        drifts: counters of the ledger whose total is not what their entries say, and likes that
            are not as many as the people.
    """

    seconds: float
    requests: int
    refused: int
    failed: int
    failures: Sequence[str]
    counts: Sequence[Count]
    sales: Sequence[Sale]
    by_country: Sequence[Count]
    flow: Flow
    race: Standing | None = None
    by_week: Sequence[Count] = ()
    by_person: Sequence[Count] = ()
    folded: int = 0
    entries: int = 0
    sent_again: int = 0
    liked_again: int = 0
    taken_back: int = 0
    turned_away: int = 0
    drifts: Sequence[str] = ()
    generations: int = 0
    kills: Mapping[str, int] = field(default_factory=dict)
    baskets: Mapping[str, int] = field(default_factory=dict)
    incidents: Sequence[str] = ()
    ready: float = 0.0
    visitors: Sequence[Count] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed and every counter is what it should be."""
        return not self.failed and not self.wrong and not self.flow.lost

    @property
    def wrong(self) -> int:
        """How many counters are not what they should be."""
        projected = (*self.by_country, *self.by_week, *self.visitors, *self.by_person)
        compared = (*self.counts, *projected)
        wrong = sum(not row.ok for row in compared) + sum(not row.ok for row in self.sales)
        return wrong + len(self.drifts)

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        rate = self.requests / self.seconds if self.seconds else 0.0
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "requests": self.requests,
            "requests_per_second": round(rate, 1),
            "refused": self.refused,
            "failed": self.failed,
            "failures": list(self.failures),
            "folded": self.folded,
            "entries": self.entries,
            "sent_again": self.sent_again,
            "liked_again": self.liked_again,
            "taken_back": self.taken_back,
            "turned_away": self.turned_away,
            "drifts": list(self.drifts),
            "generations": self.generations,
            "flow": self.flow.as_json(),
            "race": {
                name: flow.as_json()
                for name, flow in (self.race._asdict() if self.race else {}).items()
            },
            "kills": dict(self.kills),
            "baskets": dict(self.baskets),
            "incidents": list(self.incidents),
            "ready": round(self.ready, 3),
            **summed(self.counts),
            "views_by_country": sums_of(self.by_country),
            "views_ranked_by_week": sums_of(self.by_week),
            "visitors": sums_of(self.visitors),
            "people_who_like": sums_of(self.by_person),
            "counters": [{**asdict(c), "counted": c.counted, "ok": c.ok} for c in self.counts],
            "days": [
                {**asdict(c), "counted": c.counted, "ok": c.ok}
                for c in self.by_country
                if c.expected or c.counted
            ],
            "sales": [{**asdict(s), "sold": s.sold, "ok": s.ok} for s in self.sales],
        }
