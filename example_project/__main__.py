"""``python3 -m example_project``: everything it needs, then ``run.main``."""

# No annotations and no f-strings here: an old Python must get as far as the message.
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("this needs Python 3.11 or newer, not %d.%d" % sys.version_info[:2])  # noqa: UP031

from example_project.bootstrap import commands

if __name__ == "__main__":
    sys.exit(commands.serve("example_project", "demo", sys.argv[1:], ".demo", restarts=True))
