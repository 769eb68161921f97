"""The periodic jobs: publish the counts of this region, and copy those of the others."""

from __future__ import annotations

from dataclasses import asdict

from django_counters.contrib.regions.publishing import publish as give
from django_counters.contrib.regions.pulling import pull as copy
from django_counters.features import Done


def publish(using: str) -> Done:
    """Publish the counts of this region, for other regions to copy."""
    done = give(using)
    busy = "; busy: another process publishes" if done.busy else ""
    data = {"database": using, **asdict(done)}
    problems = [done.problem] if done.problem else []
    return Done(f"{done.entries} entries published{busy}", data, problems)


def pull(using: str) -> Done:
    """Copy the counts of other regions."""
    results, lines = copy(using), []
    for name, done in results.items():
        busy = "; busy: another process copies" if done.busy else ""
        moved = [f"; {done.received} received"] if done.received else []
        moved += [f"; {done.sent} sent"] if done.sent else []
        lines.append(f"{name}: {done.entries} entries copied{''.join(moved)}{busy}")
    copied = {name: asdict(done) for name, done in results.items()}
    problems = [f"{name}: {done.problem}" for name, done in results.items() if done.problem]
    return Done("\n".join(lines), {"database": using, "regions": copied}, problems)
