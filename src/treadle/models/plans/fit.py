"""Fit the factors of the plan model to short runs of a model.

A run is one (plan, devices, cores) measured for a few iterations, in the parts that a profiler can
separate. Rubick's loss is the sum of three root-mean-square logarithmic errors: of everything but
forward and optimizer, of the optimizer, and of the whole iteration. Logarithms, because a schedule
compares speeds: 10 % of 40 ms matters as much as 10 % of 40 s.

Seven factors need seven runs, three of them with the optimizer on the host, because three of the
factors only have an effect there. A fit from fewer runs predicts well near its runs, but not for
other plans.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from treadle.core.errors import InvalidInputError
from treadle.core.plan import Plan
from treadle.models.plans.iteration_time import OVERLAP_MAX, ModelType, Shape, Times
from treadle.models.plans.solver import Vector, minimise


@dataclass(frozen=True, slots=True)
class Run:
    """The measurements of one configuration; 0: not measured."""

    plan: Plan
    shape: Shape
    iteration_ms: float
    forward_ms: float = 0.0
    exchange_ms: float = 0.0
    optimizer_ms: float = 0.0
    cores: float = 1.0  # for each device

    def __post_init__(self) -> None:
        if not (self.iteration_ms > 0 and self.shape and self.plan.fits(sum(self.shape))):
            raise InvalidInputError(
                f"a run of {self.plan.name} on {list(self.shape)} devices took "
                f"{self.iteration_ms:g} ms; expected a plan that fits and a length above 0"
            )


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model and its error on the runs."""

    model: ModelType
    loss: float
    error: float  # mean relative error of the iteration over the runs
    worst: float


@dataclass(frozen=True, slots=True)
class Knob:
    """One number that a fit may change: getter, setter and bounds."""

    read: Callable[[ModelType], float]
    set: Callable[[ModelType, float], ModelType]
    lower: float
    upper: float


def _factor(name: str, lower: float, upper: float) -> Knob:
    def put(model: ModelType, number: float) -> ModelType:
        change: dict[str, Any] = {name: number}  # `replace` cannot know the field's type
        return replace(model, factors=replace(model.factors, **change))

    return Knob(lambda model: float(getattr(model.factors, name)), put, lower, upper)


def _fact(name: str, lower: float, upper: float) -> Knob:
    def put(model: ModelType, number: float) -> ModelType:
        change: dict[str, Any] = {name: number}
        return replace(model, facts=replace(model.facts, **change))

    return Knob(lambda model: float(getattr(model.facts, name)), put, lower, upper)


def _link(name: str) -> Knob:
    def put(model: ModelType, number: float) -> ModelType:
        change: dict[str, Any] = {name: number}
        return replace(model, links=replace(model.links, **change))

    return Knob(lambda model: float(getattr(model.links, name)), put, 0.1, 1000.0)


def _efficiency(tensor: int) -> Knob:
    def put(model: ModelType, number: float) -> ModelType:
        known = {**dict(model.facts.tensor_efficiency), tensor: number}
        pairs = tuple(sorted(known.items()))
        return replace(model, facts=replace(model.facts, tensor_efficiency=pairs))

    return Knob(lambda model: model.facts.efficiency(tensor), put, 0.02, 2.0)


# A factor that may be 0 stops just above it: there is no logarithm of 0.
KNOBS: Mapping[str, Knob] = {
    "k_bwd": _factor("k_bwd", 1.0, 10.0),
    "k_sync": _factor("k_sync", 1.0, OVERLAP_MAX),
    "k_opt": _factor("k_opt", 1e-8, 1e2),
    "k_opt_off": _factor("k_opt_off", 1e-8, 1e3),
    "k_const": _factor("k_const", 1e-8, 1e5),
    "k_off": _factor("k_off", 1e-8, 1e5),
    "k_swap": _factor("k_swap", 1e-8, 1e5),
    "sharded_extra": _factor("sharded_extra", 1e-8, 4.0),
    "forward_ms": _fact("forward_ms", 1e-3, 1e7),
    "recompute": _fact("recompute", 0.1, 2.0),
    **{name: _link(name) for name in ("inner", "outer", "host")},
    **{f"efficiency-{tensor}": _efficiency(tensor) for tensor in (1, 2, 4, 5, 8)},
}
SEVEN = ("k_bwd", "k_sync", "k_opt", "k_opt_off", "k_const", "k_off", "k_swap")

# The start of the paper's own solver, then starts for minima that it does not reach from there:
# full or no overlap, a step that is mostly fixed or mostly proportional to the parameters.
_STARTS: tuple[tuple[float, ...], ...] = (
    (1.5, 1.0, 1e-3, 1.0, 1.0, 1.0, 1.0),
    (2.0, 1.5, 1e-6, 3.0, 10.0, 20.0, 20.0),
    (2.0, 10.0, 3e-2, 3.0, 10.0, 20.0, 1.0),
    (1.8, 1.1, 5e-2, 0.1, 50.0, 200.0, 50.0),
    (2.2, 40.0, 1e-2, 5.0, 3.0, 3.0, 80.0),
)


def fit(model: ModelType, runs: Sequence[Run], *, free: Sequence[str] = SEVEN) -> Fit:
    """The model with its free numbers fitted to the runs."""
    if not runs:
        raise InvalidInputError("a fit needs runs; seven or more, three with the optimizer on host")
    knobs = [KNOBS[name] for name in free]

    def build(numbers: Vector) -> ModelType:
        built = model
        for knob, number in zip(knobs, numbers, strict=True):
            built = knob.set(built, float(number))
        return built

    lower, upper = [knob.lower for knob in knobs], [knob.upper for knob in knobs]
    best = min(
        (
            minimise(lambda x: _residuals(build(x), runs), start, lower=lower, upper=upper)
            for start in _starts(model, free)
        ),
        key=lambda solution: solution.loss,
    )
    fitted = build(np.asarray(best.factors))
    errors = [relative_error(fitted, run) for run in runs]
    return Fit(fitted, best.loss, fmean(errors), max(errors))


def predict(model: ModelType, run: Run) -> Times:
    """The model's prediction for a run, with the forward time as measured, if it was."""
    return model.times(run.plan, run.shape, cores=run.cores, forward_ms=run.forward_ms)


def relative_error(model: ModelType, run: Run) -> float:
    """The relative error of the predicted iteration time."""
    return abs(predict(model, run).iteration_ms / run.iteration_ms - 1.0)


def _starts(model: ModelType, free: Sequence[str]) -> list[list[float]]:
    """Deterministic starts of the search: the model as it is, then the list above."""
    here = {name: KNOBS[name].read(model) for name in free}
    lists = [here] + [{**here, **dict(zip(SEVEN, start, strict=True))} for start in _STARTS]
    return [[max(start[name], KNOBS[name].lower) for name in free] for start in lists]


def _residuals(model: ModelType, runs: Sequence[Run]) -> list[Vector]:
    exchange, optimizer, iteration = [], [], []
    for run in runs:
        said = predict(model, run)
        iteration.append(said.iteration_ms / run.iteration_ms)
        if run.exchange_ms:
            exchange.append(said.exchange_ms / run.exchange_ms)
        if run.optimizer_ms:
            optimizer.append(said.optimizer_ms / run.optimizer_ms)
    # A part that is predicted as 0 is a large error, not an infinite one.
    return [np.log(np.maximum(np.asarray(part), 1e-6)) for part in (exchange, optimizer, iteration)]
