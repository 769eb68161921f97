"""``python -m tests.faults.regions.office``: what somebody does in a region by hand.

``fence REGION`` fences, and says what it had before and has after that. ``settle`` exchanges until
nothing is new anywhere, and says what each region reads then. All that is said is one line of JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.faults.regions.settings"
django.setup()

from django.core.management import CommandError, call_command  # noqa: E402
from django.db import close_old_connections, connections  # noqa: E402

from django_counters.cached.flush import flush  # noqa: E402
from django_counters.contrib.regions import values_of  # noqa: E402
from django_counters.contrib.regions.errors import RegionAway  # noqa: E402
from django_counters.contrib.regions.models import CounterRegion  # noqa: E402
from django_counters.contrib.regions.publishing import publish  # noqa: E402
from django_counters.contrib.regions.pulling import pull  # noqa: E402
from django_counters.models import Counter, CounterPosition  # noqa: E402
from django_counters.registry import registry  # noqa: E402
from django_counters.stores.sql.tables import NAMED  # noqa: E402
from tests.faults.regions.actors import enter  # noqa: E402
from tests.faults.regions.world import NAMESPACES, REGIONS, World, hot  # noqa: E402

PATIENCE = 60.0
# How often a fence is tried.
MOST = 200


def keys_in(using: str) -> list[str]:
    """All counters that anybody has counted, also those that only wait in Redis."""
    counted = (name.replace("~", ":", 1) for name in World.present().books())
    own = Counter.objects.using(using).values_list("key", flat=True)
    copied = CounterRegion._base_manager.using(using).values_list("key", flat=True)
    return sorted({*map(hot, NAMESPACES), *counted, *own, *copied})


def share(using: str, region: str) -> dict[str, int]:
    """What a region has counted, as somebody reads it who asks this database."""
    return values_of(keys_in(using), region=region, using=using)


def waiting(using: str) -> dict[str, int]:
    """What waits in Redis for each counter of a region."""
    strategy = registry.strategy(registry.policy(hot("views")).recipe, NAMED, using)
    keys = [key for key in keys_in(using) if key.startswith("views:")]
    return {key: strategy.read(key, "exact", 0).pending for key in keys}


def fence(world: World, region: str) -> dict[str, Any]:
    """Fence a region, as often as it takes."""
    enter(world, region)
    before, away = share(region, region), 0
    ours = CounterPosition._base_manager.using(region).filter(source=f"region {region}")
    clock = {row.part: row.position for row in ours}
    while True:
        out = io.StringIO()
        try:
            call_command("counters", "regions", "fence", database=region, as_json=True, stdout=out)
        except CommandError as error:
            # Somebody is away, or its own exchangers are just publishing.
            away += 1
            if "can't answer" not in str(error) or away > MOST:
                raise
            close_old_connections()
            time.sleep(0.1)
            continue
        told = json.loads(out.getvalue())
        return {
            "before": before,
            "clock": int(clock.get("1") or 0),
            "after": share(region, region),
            "waiting": waiting(region),
            "told": told,
            "away": away,
        }


def settle(world: World) -> dict[str, Any]:
    """Exchange until nothing is new; what each region reads of each, and of all."""
    until = time.monotonic() + PATIENCE
    while _is_new(world):
        assert time.monotonic() < until, "it has no end"
        close_old_connections()
    found = {}
    for region in REGIONS:
        enter(world, region)
        found[region] = {one: share(region, one) for one in REGIONS}
        found[region][""] = dict(Counter.objects.values_of(keys_in(region), using=region))
    return found


def _is_new(world: World) -> bool:
    new = False
    for region in REGIONS:
        enter(world, region)
        try:
            flushed = flush(region)
            # Not before it has published once, where its server was started. Of a process that was
            # killed the server may hold a lock for a moment.
            new = new or bool(flushed.away or flushed.busy or flushed.elsewhere)
            done = [publish(region), *pull(region).values()]
        except RegionAway:
            return True
        new = new or any(one.entries or one.busy or one.problem for one in done)
    return new


def main(words: list[str]) -> None:
    """Do it."""
    world = World.present()
    found = fence(world, words[1]) if words[0] == "fence" else settle(world)
    connections.close_all()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
