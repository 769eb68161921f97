"""``python3 -m tests.django_suite``: everything it needs, then ``run.main``."""

from __future__ import annotations

import sys

from example_project.bootstrap import commands

if __name__ == "__main__":
    sys.exit(commands.serve("tests.django_suite", "tests", sys.argv[1:], want=()))
