"""What runs of a script say of a job with other arguments: the nearest of them, and their doubt."""

from collections.abc import Callable, Collection, Sequence
from math import exp
from typing import NamedTuple

from treadle.models.learning.commands import Arguments
from treadle.models.learning.effects import MEMORY, NEED, Effects, Figure, Row
from treadle.models.learning.kind_history import History, Run

ALIKE = 0.05  # runs whose doubt is so much alike count alike, the newest first

NEWEST = 48  # runs that are looked at


class Near(NamedTuple):
    """Figures as they would be with the arguments that are asked, the newest last."""

    figures: tuple[float, ...]
    doubt: float  # in powers of e; 0: of a run with these arguments


def near(
    rows: Sequence[Row], asked: Arguments, figure: Figure, effects: Effects | None = None
) -> Near:
    """The nearest of these runs, of which there must be one; effects: None: those of these runs."""
    if all(arguments == asked for arguments, _ in rows):
        return Near(tuple(found for _, found in rows), 0.0)
    effects = effects or Effects.of(rows, figure)
    newest = rows[-NEWEST:]
    steps = [(effects.step(arguments, asked), found) for arguments, found in newest]
    least = min(step.doubt for step, _ in steps)
    return Near(
        tuple(found * exp(step.shift) for step, found in steps if step.doubt <= least + ALIKE),
        least,
    )


class Use(NamedTuple):
    """What a job uses, as far as that was seen; None: not seen."""

    busy: float | None = None
    memory_busy: float | None = None
    cores: float | None = None
    memory_gib: float | None = None  # so much at most, as far as runs say
    reached_gib: float = 0.0  # by a run with these arguments
    doubt: float = 0.0  # how far off these may be, in powers of e


LEAST = 1e-3  # a share that is seen as 0
_FIGURES: tuple[tuple[str, Callable[[Run], float | None]], ...] = (
    ("busy", lambda run: run.busy),
    ("memory_busy", lambda run: run.memory_busy),
    ("cores", lambda run: run.cores),
)


def use_of(history: History, asked: Arguments) -> Use:
    """What a job with these arguments uses. Memory is said with its doubt on top."""
    found: dict[str, float] = {}
    doubt = 0.0
    steps = history.counting
    asked = without(asked, steps)
    for name, figure in _FIGURES:
        seen = [(run, each) for run in history.rows if (each := figure(run)) is not None]
        alone = [(run, each) for run, each in seen if not run.beside]
        if rows := [
            (without(run.arguments, steps), max(LEAST, each)) for run, each in alone or seen
        ]:
            nearest = near(rows, asked, NEED)
            found[name], doubt = _smoothed(nearest.figures), max(doubt, nearest.doubt)
    peaks = [(run, run.memory_gib) for run in history.rows if run.memory_gib is not None]
    rows = [(without(run.arguments, steps), peak) for run, peak in peaks if run.watched]
    rows = rows or [(without(run.arguments, steps), peak) for run, peak in peaks]
    if rows:
        nearest = near(rows, asked, MEMORY)
        doubt = max(doubt, nearest.doubt)
        # A peak that was reached once can be reached again, also by a run that was cut off soon.
        own = [peak for run, peak in peaks if without(run.arguments, steps) == asked]
        found["reached_gib"] = max(own, default=0.0)
        most_gib = max(nearest.figures) * exp(nearest.doubt)
        found["memory_gib"] = max(most_gib, found["reached_gib"])
    if "busy" in found:
        found["busy"] = min(1.0, found["busy"])
    return Use(**found, doubt=doubt)


def without(arguments: Arguments, names: Collection[str]) -> Arguments:
    """The arguments but for those that only say how many steps there are."""
    return tuple(one for one in arguments if one[0] not in names) if names else arguments


def _smoothed(figures: Sequence[float]) -> float:
    """Of figures the newest counts half."""
    known = figures[0]
    for figure in figures[1:]:
        known = 0.5 * (known + figure)
    return 0.0 if known <= LEAST else known
