"""The first steps of a child: ``python launcher.py ...`` turns into the real program.

A script, because code between fork and exec (``preexec_fn``) is not safe once there are threads,
and Python 3.12 warns about it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

PR_SET_PDEATHSIG = 1


def become(words: Sequence[str]) -> NoReturn:
    """Turn this process into the program: the other half of ``children.start``.

    Args:
        words: Parent pid, death signal (0 for none), "uid:gid" or "", then the command.
    """
    parent, death, account, *command = words
    if account:
        uid, gid = map(int, account.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if int(death) and sys.platform == "linux":
        # After the change of user, which clears it; and the parent may be gone already.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(death), 0, 0, 0)
        if os.getppid() != int(parent):
            raise SystemExit(1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs should not
        signal.signal(number, signal.SIG_DFL)
    if os.getsid(0) == os.getpid():  # no terminal sends us SIGINT; only our parent does
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise SystemExit(f"{command[0]}: {error.strerror}") from None


if __name__ == "__main__":
    become(sys.argv[1:])
