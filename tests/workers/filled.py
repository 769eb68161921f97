"""A process that counts in a buffer whose disk becomes full: a small one, which only it can see.

Ends with 77 where it may have none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

NO_DISK = 77
MANY = 3000


def main() -> None:
    """Mount the disk, count more than it can hold, and land it."""
    root = Path(os.environ["WORKERS_DIRECTORY"])
    root.mkdir(exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "none", root], check=False)
    if mounted.returncode:
        sys.exit(NO_DISK)
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.workers.settings")
    django.setup()
    from django_counters.contrib import buffers
    from django_counters.models import Counter

    Path(root, "ballast").write_bytes(bytes(120 << 10))
    for turn in range(3):
        if turn:
            # Nothing fits any more. Before, a file was full and was landed.
            Path(root, "more").write_bytes(b"")
            with open(root / "more", "ab", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError as error:
                    print(error)
        for number in range(MANY):
            Counter.objects.increment(f"hits:{number}-{'x' * 150}")
        print(turn, buffers.flush())


if __name__ == "__main__":
    if sys.argv[1:]:
        main()
        sys.exit()
    # Others than root need a space of names in which they are.
    command = (
        "unshare",
        "-m" if os.getuid() == 0 else "-Urm",
        sys.executable,
        "-m",
        "tests.workers.filled",
        "inside",
    )
    try:
        os.execvp(command[0], command)
    except OSError:
        sys.exit(NO_DISK)
