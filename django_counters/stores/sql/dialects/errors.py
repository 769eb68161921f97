"""The meaning of an error of a database."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError


class Errors:
    """Tells errors by the code that came with them.

    Attributes:
        has_server: whether there is a server, so that a connection to it can be lost.
        OVERFLOWED: how the codes of errors begin that say that a number did not fit; so do the
            others.
    """

    has_server = True
    OVERFLOWED: tuple[str, ...] = ()
    TIMED_OUT: tuple[str, ...] = ()
    BUSY: tuple[str, ...] = ()
    READ_ONLY: tuple[str, ...] = ()
    LOST: tuple[str, ...] = ()
    CANCELLED: tuple[str, ...] = ()
    UNSERIALIZABLE: tuple[str, ...] = ()

    def code(self, error: Exception) -> str:
        """The code of an error; empty where it has none."""
        return str(getattr(error.__cause__, "sqlstate", None) or "")

    def overflowed(self, error: Exception) -> bool:
        """Whether a number did not fit into its column."""
        return self.code(error).startswith(self.OVERFLOWED)

    def timed_out(self, error: Exception) -> bool:
        """Whether a statement waited too long for a lock."""
        return self.code(error).startswith(self.TIMED_OUT)

    def busy(self, error: Exception) -> bool:
        """Whether others held what is needed, or it took too long."""
        return self.code(error).startswith(self.BUSY)

    def read_only(self, error: Exception) -> bool:
        """Whether the database takes no changes."""
        return self.code(error).startswith(self.READ_ONLY)

    def refused_function(self, error: Exception) -> str:  # noqa: ARG002 - few have functions
        """The function that the role may not execute; empty where it is another error."""
        return ""

    def lost(self, error: Exception) -> bool:
        """Whether the connection ended before the answer, or with the server's last words."""
        if not self.unexplained(error):
            return self.code(error).startswith(self.LOST)
        return isinstance(error, InterfaceError | OperationalError)

    def cancelled(self, error: Exception) -> bool:
        """Whether a person or a time limit ended the statement."""
        return self.code(error).startswith(self.CANCELLED)

    def unexplained(self, error: Exception) -> bool:
        """Whether there is no reason from the server."""
        return self.has_server and not self.code(error)

    def unserializable(self, error: Exception) -> bool:
        """Whether the transaction does not see what others have changed."""
        return self.code(error).startswith(self.UNSERIALIZABLE)

    def ended_transaction(self, error: Exception) -> bool:  # noqa: ARG002 - most keep it open
        """Whether the server has taken back all of the transaction, and would begin another one."""
        return False

    def beyond_quotas(self, error: Exception) -> tuple[int, ...] | None:  # noqa: ARG002 - none asks
        """What periods would have counted, if it was too much; else None."""
        return None

    def refused_by(self, error: Exception) -> str | None:  # noqa: ARG002 - there are no partitions
        """The constraint that refused a row; empty where no partition takes it; else None."""
        return None
