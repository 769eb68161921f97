"""``python -m benchmarks.capacity``: see ``--help``."""

from __future__ import annotations

import argparse
import sys

from benchmarks.capacity import page


def main(arguments: list[str]) -> None:
    """Print what so many increments would need, by the costs that were published; or publish it."""
    parser = argparse.ArgumentParser("python -m benchmarks.capacity", description=main.__doc__)
    parser.add_argument("--publish", action="store_true", help="write it into the documentation")
    if parser.parse_args(arguments).publish:
        page.publish()
    else:
        print(page.shown(page.stored()))


if __name__ == "__main__":
    main(sys.argv[1:])
