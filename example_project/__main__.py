"""``python3 -m example_project``: everything it needs, then ``run.main``."""

# No annotations and no f-strings here: an old Python must get as far as the message.
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("this needs Python 3.11 or newer, not %d.%d" % sys.version_info[:2])  # noqa: UP031

from example_project.bootstrap import commands

if __name__ == "__main__":
    # What looks at a run starts no servers of its own.
    want = () if sys.argv[1:2] == ["top"] else None
    argv = sys.argv[1:]
    sys.exit(commands.serve("example_project", "demo", argv, ".demo", want, restarts=True))
