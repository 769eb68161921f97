"""Who visits a page. Both the site and the load know this, and nothing of Django."""

from __future__ import annotations

from collections.abc import Iterable

# A random name that the browser of a visitor keeps.
VISITOR_COOKIE = "visitor"
# In an answer: the visitor that a visit was counted for.
VISITOR_HEADER = "X-Visitor"
_SEEN, _DOUBTFUL = "visitor", "perhaps a visitor"


def visit_of(counter: str, visitor: str, *, known: bool = True) -> str:
    """The name of the sum of a tally; another one where nobody knows whether it was counted."""
    return f"{_SEEN if known else _DOUBTFUL} of {counter} {visitor}"


def visitors_of(counter: str, names: Iterable[str]) -> tuple[int, int]:
    """How many different visitors a counter has had, and of how many more nobody knows."""
    seen, doubtful = (f"{kind} of {counter} " for kind in (_SEEN, _DOUBTFUL))
    listed = list(names)
    sure = {name.removeprefix(seen) for name in listed if name.startswith(seen)}
    perhaps = {name.removeprefix(doubtful) for name in listed if name.startswith(doubtful)}
    return len(sure), len(perhaps - sure)
