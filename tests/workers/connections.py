"""Which connections to Redis a process has, as the server numbers them."""

from __future__ import annotations

import os


def told() -> str:
    """This process, and the number of each connection of this thread."""
    from django_counters.redis.client import _clients

    numbers = [client.call("CLIENT", "ID") for client in list(_clients.values())]
    return " ".join(map(str, [os.getpid(), *numbers]))


def shared(lines: list[str]) -> dict[str, set[str]]:
    """Connections on which more than one process has spoken, with those processes."""
    speakers: dict[str, set[str]] = {}
    for line in lines:
        process, *numbers = line.split()
        for number in numbers:
            speakers.setdefault(number, set()).add(process)
    return {number: who for number, who in speakers.items() if len(who) > 1}
