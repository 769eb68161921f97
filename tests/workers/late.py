"""A process whose children begin with Django, and count, in what they are asked to do."""

from __future__ import annotations

import multiprocessing
import sys

MANY = 100


def work() -> None:
    """Count in a process that knew nothing of Django when it was made."""
    import django

    django.setup()

    from django_counters.models import Counter

    for _ in range(MANY):
        Counter.objects.increment("hits:home")


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    child = multiprocessing.Process(target=work)
    child.start()
    child.join()
    sys.exit(child.exitcode)
