"""How fast jobs of one kind are, by size, as far as that was measured.

Runs with other arguments count as they would have been with those that are asked, if nothing nearer
was measured (near.py). Steps in tight placements on the kind's home type of device are its speed;
those in other placements (spread.py) and on other types (unlike.py) are compared with it.
"""

from dataclasses import dataclass, field

from treadle.models.learning.commands import Arguments
from treadle.models.learning.curves import FittedCurve
from treadle.models.learning.effects import NEED, Effects
from treadle.models.learning.kind_history import History, Run
from treadle.models.learning.near import near, without
from treadle.models.learning.speeds import REPEATS_MAX, median

BySize = dict[int, float]  # seconds of a step: the median of the newest
DEVICES = "devices"  # as an argument, so that what more devices do is not taken for another's


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of a step, by size; and how far off they may be, in powers of e."""

    home: str = ""
    steps: BySize = field(default_factory=dict)
    apart: dict[str, BySize] = field(default_factory=dict)  # by how the placement is spread
    elsewhere: dict[str, BySize] = field(default_factory=dict)  # by type of device
    doubt: float = 0.0

    @property
    def curve(self) -> FittedCurve:
        """What follows for all sizes; something must have been measured."""
        return FittedCurve.through(tuple(sorted(self.steps.items())))


def measured(history: History, asked: Arguments) -> Measured:
    """What runs of a kind say of the speed of a job with these arguments."""
    tables: dict[tuple[str, str], list[Run]] = {}
    steps = history.counting
    asked = without(asked, steps)
    for each in history.rows:
        run = each._replace(arguments=without(each.arguments, steps)) if steps else each
        if run.step_s is not None:
            elsewhere = run.device_type if run.device_type not in ("", history.home) else ""
            # Of a placement apart on another type, which of the two made it slower is not known.
            if not (elsewhere and run.spread):
                tables.setdefault((run.spread, elsewhere), []).append(run)
    found: dict[tuple[str, str], BySize] = {}
    doubt = 0.0
    for key, runs in tables.items():
        found[key], off = _by_size(runs, asked)
        doubt = max(doubt, off) if key == ("", "") else doubt
    return Measured(
        history.home,
        found.pop(("", ""), {}),
        {spread: found[spread, ""] for spread, elsewhere in found if not elsewhere},
        {elsewhere: found["", elsewhere] for spread, elsewhere in found if elsewhere},
        doubt,
    )


def _by_size(runs: list[Run], asked: Arguments) -> tuple[BySize, float]:
    """The median at each size, and the doubt about the size of which most is known."""
    if all(run.arguments == asked for run in runs):
        sizes = {run.size for run in runs}
        return {
            size: median([run.step_s or 0.0 for run in runs if run.size == size][-REPEATS_MAX:])
            for size in sizes
        }, 0.0
    found: BySize = {}
    doubts = []
    rows = [((*run.arguments, (DEVICES, str(run.size))), run.step_s or 0.0) for run in runs]
    effects = Effects.of(rows, NEED)
    for size in {run.size for run in runs}:
        wanted = (*asked, (DEVICES, str(size)))
        here = [row for row, run in zip(rows, runs, strict=True) if run.size == size]
        nearest = near(here, wanted, NEED, effects)
        found[size] = median(nearest.figures[-REPEATS_MAX:])
        doubts.append(nearest.doubt)
    return found, min(doubts)
