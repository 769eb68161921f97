"""The example with data that are thrown away, on servers of its own: what is photographed."""

from __future__ import annotations

import sys

from example_project.bootstrap import commands

if __name__ == "__main__":
    sys.exit(commands.serve("example_project", "demo", sys.argv[1:], restarts=True))
