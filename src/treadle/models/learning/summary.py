"""What is known of one script, for people: figures, the arguments that matter, speeds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp
from typing import NamedTuple

from treadle.models.learning.commands import Arguments
from treadle.models.learning.effects import ABSENT, MEMORY, NEED, Effects, Number
from treadle.models.learning.kept_experts import length_effects
from treadle.models.learning.kind_history import History, Run
from treadle.models.learning.measured import DEVICES, Measured, measured
from treadle.models.learning.speeds import median


class Span(NamedTuple):
    """A figure over all runs in which it was seen."""

    runs: int
    least: float
    middle: float
    most: float


class Effect(NamedTuple):
    """What an argument that matters does."""

    figure: str  # length, step, memory or steps
    share: float  # of what varied
    slope: float | None = None  # of a number
    factors: Mapping[str, float] | None = None  # of a word: by value, of the middle


class Argument(NamedTuple):
    name: str
    values: int  # that were tried
    effects: tuple[Effect, ...] = ()


class Figures(NamedTuple):
    """What was seen over all runs, whatever their arguments."""

    length_s: Span | None  # of whole runs
    memory_gib: Span | None
    busy: Span | None
    cores: Span | None


class Summary(NamedTuple):
    measured: Measured  # as of the last run
    arguments: tuple[Argument, ...]


def figures(history: History) -> Figures:
    rows = history.rows
    return Figures(
        _span(run.seconds for run in rows if run.whole and run.seconds is not None),
        _span(run.memory_gib for run in rows if run.memory_gib),
        _span(run.busy for run in rows if run.busy is not None),
        _span(run.cores for run in rows if run.cores is not None),
    )


def summary(history: History) -> Summary:
    """What takes some milliseconds to find out."""
    rows = history.rows
    last: Arguments = rows[-1].arguments if rows else ()
    steps = [(_with_size(run), run.step_s) for run in rows if run.step_s is not None]
    memory = [(run.arguments, run.memory_gib) for run in rows if run.memory_gib]
    found = {
        "length": length_effects(rows),
        "step": Effects.of(steps, NEED),
        "memory": Effects.of(memory, MEMORY),
    }
    return Summary(measured(history, last), tuple(_arguments(rows, found, history.counting)))


def _arguments(
    rows: Sequence[Run], found: Mapping[str, Effects], counting: Collection[str]
) -> list[Argument]:
    """Those that matter most first. What only says how many steps there are is in proportion."""
    given = [dict(run.arguments) for run in rows]
    arguments = [
        Argument(
            name,
            len({each.get(name, ABSENT) for each in given}),
            (Effect("steps", 1.0, slope=1.0),)
            if name in counting
            else tuple(
                _effect(figure, found[figure], name)
                for figure in found
                if name in found[figure].parts
            ),
        )
        for name in sorted({name for each in given for name in each})
    ]
    return sorted(arguments, key=lambda one: -sum(each.share for each in one.effects))


def _effect(figure: str, effects: Effects, name: str) -> Effect:
    part, share = effects.parts[name], effects.explained.get(name, 0.0)
    if isinstance(part, Number):
        return Effect(figure, share, slope=part.slope)
    return Effect(figure, share, factors={value: exp(at) for value, at in part.levels.items()})


def _with_size(run: Run) -> Arguments:
    return (*run.arguments, (DEVICES, str(run.size)))


def _span(found: Iterable[float]) -> Span | None:
    seen = sorted(found)
    return Span(len(seen), seen[0], median(seen), seen[-1]) if seen else None
