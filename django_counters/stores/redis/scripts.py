"""The scripts that Redis runs, one verb each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script, and its name on the server."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        # Redis names scripts so; it is no secret.
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False)
        object.__setattr__(self, "sha", digest.hexdigest())


def _read(name: str) -> str:
    return (files(__package__) / "lua" / f"{name}.lua").read_text("utf-8")


def _on_slots(verb: str) -> Script:
    """A script that works on slots, behind the text that all of these share."""
    return Script(_read("slot") + _read(verb))


# Most calls are one increment of a counter that was counted a moment ago.
ADD = Script(_read("actors") + _read("usual") + _on_slots("add").text)
ADD_ONLY = Script(_read("add_only"))
ADD_ONCE = _on_slots("add_once")
MAXIMUM = _on_slots("maximum")
LOOK = _on_slots("look")
FILL = _on_slots("fill")
FORGET = Script(_read("forget"))
DISCARD = Script(FORGET.text + _read("discard"))
DISCARD_SETS = Script(_read("discard_sets"))
DISCARD_CELLS = Script(_read("discard_cells"))
FIELDS = _on_slots("fields")
CUT = _on_slots("cut")
ACKNOWLEDGE = _on_slots("acknowledge")
WAITING = _on_slots("waiting")
SETTLE = Script(_read("settle"))
READ = _on_slots("read")
HOLD = Script(_read("hold"))
RELEASE = Script(_read("release"))
OWN = Script(_read("own"))
