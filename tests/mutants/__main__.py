"""``python3 -m tests.mutants``: everything they need, then ``run.main``."""

from __future__ import annotations

import sys

from example_project.bootstrap import commands

if __name__ == "__main__":
    sys.exit(commands.serve("tests.mutants", "tests", sys.argv[1:]))
