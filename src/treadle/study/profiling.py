"""What a profile of a job says: the sizes worth having, and the jobs that it would share well with.

Pure: the measurements come from the caller (`treadle profile`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from treadle.models.company.belief import FLOOR, SUM_MIN
from treadle.models.company.predictor import doubt, predict

WORTH = 0.5  # a device is worth having if it adds at least this much of a device's work

# Busy shares of six kinds of training alone on an H200 (`python benchmarks/gpu/batch.py`,
# benchmarks/gpu/batch_h200.json).
TYPICAL: Mapping[str, float] = {
    "a saturating transformer": 0.96,
    "an LSTM": 0.68,
    "a ResNet": 0.61,
    "a tiny model": 0.14,
    "training that waits for storage": 0.03,
    "training that waits for augmentation": 0.01,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run at one size; None: it was not measured."""

    size: int
    steps_per_s: float | None = None
    seconds: float = 0.0  # over which that was measured
    first_step_s: float | None = None  # from its launch
    stages: Mapping[str, float] = field(default_factory=dict)
    busy: float | None = None
    gpu_memory_gib: float | None = None
    memory_gib: float | None = None
    cores: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A kind of job, and what both would keep of their speeds on one device."""

    kind: str
    keeps: float
    other_keeps: float
    doubt: float

    @property
    def together(self) -> float:
        return self.keeps + self.other_keeps


def worth_having(runs: Sequence[Measured]) -> list[int]:
    """Sizes whose devices each add at least WORTH of what one device does; ascending."""
    known = sorted((run.size, run.steps_per_s) for run in runs if run.steps_per_s)
    if not known:
        return []
    best_size, best = known[0]
    found = [best_size]
    each = best / best_size  # what one device does
    for size, per_s in known[1:]:
        if per_s - best < WORTH * each * (size - best_size):
            break
        found.append(size)
        best_size, best = size, per_s
    return found


def good_company(busy: float | None, *, mps: bool = False) -> list[Company]:
    """Kinds with which it is expected to get more done than one after the other, the best first."""
    if busy is None:
        return []
    found = []
    for kind, other in TYPICAL.items():
        keeps, other_keeps = predict([(busy, None, None), (other, None, None)], mps)
        if keeps + other_keeps >= SUM_MIN and min(keeps, other_keeps) >= FLOOR:
            one = Company(kind=kind, keeps=keeps, other_keeps=other_keeps, doubt=doubt(mps=mps))
            found.append(one)
    return sorted(found, key=lambda one: -one.together)
