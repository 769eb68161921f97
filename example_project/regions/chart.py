"""What each region sees as a bar, and how far each was behind: drawn here, as SVG."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from example_project.regions.settings import NAMES
from example_project.regions.world import States, everything

WIDTH, HEIGHT = 652, 170
LEFT, TOP, BOTTOM = 52, 12, 8
BAR = 320
SHOWN = 240  # moments, four a second


@dataclass(frozen=True)
class Part:
    """What a region sees of one: where it stands in the bar, and how much is missing there."""

    of: str
    seen: int
    missing: int
    x: int
    width: int
    gap: int

    @property
    def gap_x(self) -> int:
        """Where the part begins that is missing."""
        return self.x + self.width


@dataclass(frozen=True)
class Row:
    """One region, as it sees the world."""

    name: str
    total: int
    behind: int
    parts: list[Part]
    is_cut: bool
    width: int = BAR


def rows(states: States, cut: Collection[str]) -> list[Row]:
    """A row for each region; all bars have the same scale."""
    all_ = everything(states)
    return [
        Row(
            name,
            state.total,
            sum(all_.values()) - state.total,
            _parts(state.seen, all_),
            name in cut,
        )
        for name, state in states.items()
    ]


def _parts(seen: Mapping[str, int], all_: Mapping[str, int]) -> list[Part]:
    whole, found, before = max(sum(all_.values()), 1), [], 0
    for name, there in all_.items():
        x, middle, end = (
            BAR * number // whole for number in (before, before + seen[name], before + there)
        )
        found.append(Part(name, seen[name], there - seen[name], x, middle - x, end - middle))
        before += there
    return found


@dataclass(frozen=True)
class Late:
    """How far each region was behind, moment by moment."""

    moments: Sequence[Mapping[str, int]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    ground: int = HEIGHT - BOTTOM

    @property
    def most(self) -> int:
        """The number at the upper line, a round one."""
        most = max((max(moment.values()) for moment in self.moments), default=0)
        step: int = 10 ** (len(str(max(most, 10))) - 1)
        return -(-max(most, 10) // step) * step

    @property
    def half(self) -> int:
        """The number at the line in the middle."""
        return self.most // 2

    @property
    def middle(self) -> int:
        """Where that line is."""
        return self._y(self.half)

    @property
    def top(self) -> int:
        """Where the upper line is."""
        return TOP

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The points of the line of each region, the newest to the right."""
        start = SHOWN - len(self.moments)
        return [
            (
                name,
                " ".join(
                    f"{self._x(start + place)},{self._y(moment[name])}"
                    for place, moment in enumerate(self.moments)
                ),
            )
            for name in NAMES
        ]

    def _x(self, place: int) -> int:
        return LEFT + (WIDTH - LEFT) * place // (SHOWN - 1)

    def _y(self, number: int) -> int:
        return self.ground - max(number, 0) * (self.ground - TOP) // self.most
