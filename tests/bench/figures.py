"""What a bench finds out: a figure, the floor it stands on, and how large it may be.

Machines differ and are busy: a floor is measured in the same run, in turns with what is compared.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["ms", "s", "MB", "kB", "bytes", "M", "%", "x", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    what: str
    value: float
    unit: Unit = "ms"
    floor: float | None = None
    floor_is: str = ""
    at_most: float | None = None
    """Times the floor where there is one, or else in the unit; None: told, not judged."""

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    @property
    def holds(self) -> bool:
        judged = self.value if self.ratio is None else self.ratio
        return self.at_most is None or judged <= self.at_most

    @property
    def cells(self) -> tuple[str, ...]:
        bound = "" if self.at_most is None else f"{self.at_most:g}{'x' if self.ratio else ''}"
        return (
            self.what,
            f"{self.value:.{0 if self.value >= 100 else 1}f} {self.unit}",
            "" if self.floor is None else f"{self.floor:.1f} {self.unit}, {self.floor_is}",
            "" if self.ratio is None else f"{self.ratio:.2f}x",
            bound,
            "" if self.at_most is None else "ok" if self.holds else "OVER",
        )


HEADINGS = ("what", "figure", "floor", "ratio", "at most", "")


def table(figures: Iterable[Figure]) -> str:
    """As Markdown that is readable as it is."""
    rows = [HEADINGS, *(figure.cells for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]
    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([lines[0], rule, *lines[1:]])


def wall_ms(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    made = act()  # freed only after its time is taken
    taken_ms = (time.perf_counter() - began) * 1000
    del made
    return taken_ms


def in_turns(contestants: Mapping[str, Callable[[], float]], *, runs: int) -> dict[str, float]:
    """The median of each, so taken that all of them see the same weather. The first run warms."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for run in range(runs + 1):
        for name, measure in contestants.items():
            figure = measure()
            if run:
                taken[name].append(figure)
    return {name: statistics.median(values) for name, values in taken.items()}
