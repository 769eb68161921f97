"""Real requests by hour, status and country: equal to plain Python, also when counted twice."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from django_counters.contrib.series.cells import decoded
from django_counters.contrib.series.models import CounterCell
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.testing import override_counters
from django_counters.tokens import token_of
from tests.series.cells import STRATEGIES, land

pytestmark = pytest.mark.django_db(transaction=True)
LOG = Path(__file__).parents[3] / "shared/data/access.log"
LINE = re.compile(r'^(\S+) \S+ \S+ \[([^]]+)\] "\S* ?(\S*)[^"]*" (\d{3}) ')
COUNTRIES = ("DE", "FR", "US", "JP", "BR")
REQUESTS = 2000


class Visit(NamedTuple):
    """One request: when, which part of the site, with which status, from where."""

    moment: datetime
    section: str
    status: str
    country: str


def _visits() -> list[Visit]:
    with LOG.open(encoding="utf-8", errors="replace") as lines:
        found = [visit for line in lines if (visit := _visit(line))]
    return found[:: max(1, len(found) // REQUESTS)][:REQUESTS]


def _visit(line: str) -> Visit | None:
    match = LINE.match(line)
    if match is None:
        return None
    address, moment, path, status = match.groups()
    when = datetime.strptime(moment, "%d/%b/%Y:%H:%M:%S %z").astimezone(UTC)
    # A country for each network: the log has none.
    country = COUNTRIES[int(address.partition(".")[0], 36) % len(COUNTRIES)]
    return Visit(when, path.split("/")[1][:20] or "home", status, country)


def _expected(visits: Sequence[Visit]) -> Tally[tuple[str, datetime, str, str]]:
    return Tally(
        (f"log:{v.section}", v.moment.replace(minute=0, second=0), v.status, v.country)
        for v in visits
    )


def _found() -> Tally[tuple[str, datetime, str, str]]:
    stored = registry.measures("default").find("log")
    assert stored
    found: Tally[tuple[str, datetime, str, str]] = Tally()
    for cell in CounterCell.objects.filter(measure=stored.id, period=CounterCell.Period.HOUR):
        tags = decoded(cell.tags, stored.tags)
        found[cell.key, cell.start.astimezone(UTC), tags["status"], tags["country"]] += cell.value
    return found


@pytest.fixture
def visits() -> list[Visit]:
    if not LOG.exists():
        pytest.skip("the access log is not there")
    return _visits()


@pytest.fixture(params=STRATEGIES)
def declared(request: pytest.FixtureRequest, cached: str) -> Iterator[str]:
    options: dict[str, Any] = {
        "STRATEGY": request.param,
        "PER": ["hour", "day"],
        "TAGS": {"status": 50, "country": 10},
    }
    if request.param == "cached":
        options["OPTIONS"] = {"timeout": 10}
    with override_counters(log=options):
        yield request.param


def test_counted_twice_with_tokens(visits: list[Visit], declared: str) -> None:
    """As a consumer of a log does it that dies and reads again from an earlier place."""
    assert len(visits) == REQUESTS
    tokens = [_token(declared, number) for number in range(REQUESTS)]
    for first in (0, REQUESTS // 2, 0):
        for token, visit in list(zip(tokens, visits, strict=True))[first:]:
            Counter.objects.increment(
                f"log:{visit.section}",
                token=token,
                at=visit.moment,
                tags={"status": visit.status, "country": visit.country},
            )
        land()
    assert _found() == _expected(visits)
    totals = Tally(f"log:{visit.section}" for visit in visits)
    assert Counter.objects.values_of(totals) == totals


def test_collected(visits: list[Visit], declared: str) -> None:
    for start in range(0, REQUESTS, 500):
        with Counter.objects.collect():
            for visit in visits[start : start + 500]:
                Counter.objects.increment(
                    f"log:{visit.section}",
                    at=visit.moment,
                    tags={"status": visit.status, "country": visit.country},
                )
    land()
    assert _found() == _expected(visits)


def _token(strategy: str, number: int) -> UUID | str:
    """What stands for a line: a cached counter remembers tokens that carry their time."""
    line = f"access.log:{number}"
    return token_of(line, NOW) if strategy in ("cached", "ledger") else line


NOW = datetime.now(UTC)
