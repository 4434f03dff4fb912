"""Muri's interleaving (Zhao et al., SIGCOMM'22): jobs pass through stages in lock step.

A cycle has four slots, and each job does one iteration in a cycle, one slot behind the job before
it: reading and preparing data over two slots, computing in the next, synchronising in the last. A
slot ends with the longest stage in it, so every job of a group runs at the group's pace. The order
of the jobs matters, so every order is tried and the best one used (or the worst, for comparison).

Jobs also slow each other in ways that slots do not model. The authors multiply the cycle by
measured penalties, and each job's time alone by 1.015.

Stages are those of the size a job was profiled at. On another size, or where its placement slows
it, an iteration keeps its shape and all its stages are as much longer or shorter.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import inf, isclose

from treadle.core.allocation import Allocation
from treadle.core.job import JobSpec
from treadle.core.ports import PerformanceModel
from treadle.models import stages
from treadle.models.scaling import ScalingModel

SLOTS = 4
Stages = tuple[float, float, float]  # data, compute, network: seconds
_REMEMBERED_MAX = 100_000  # groups
_EMPTY = (-inf, -inf, -inf)

ALONE = 1.015
# By the number of jobs in a group; without matching, the authors took 1.30 for groups of four.
PENALTIES: Mapping[int, float] = {2: 1.33 / ALONE, 3: 1.5 / ALONE, 4: 1.37 / ALONE}
PENALTIES_UNMATCHED: Mapping[int, float] = {**PENALTIES, 4: 1.30 / ALONE}
ORDERINGS: Mapping[str, Callable[..., float]] = {"best": min, "worst": max}


class StaggeredModel:
    """Speeds of jobs alone and in groups that move in lock step."""

    def __init__(
        self,
        base: PerformanceModel | None = None,
        *,
        ordering: str = "best",
        penalties: Mapping[int, float] = PENALTIES,
        alone: float = ALONE,
        times: stages.StageTimes | None = None,
    ) -> None:
        self._base: PerformanceModel = ScalingModel() if base is None else base
        self._choose = ORDERINGS[ordering]
        self._penalties = penalties
        self._alone = alone
        self._ordering = ordering
        self._times = stages.StageTimes() if times is None else times
        # Keyed by the ids of stages, because equal ones are the same object; the stages are stored
        # with the answer, so that their ids stay valid.
        self._known: dict[tuple[int, ...], tuple[float, list[stages.Stages]]] = {}
        # By stages and speed; the first are kept for the same reason.
        self._stretched: dict[tuple[int, float], tuple[stages.Stages, stages.Stages]] = {}

    def ordered(self, ordering: str) -> "StaggeredModel":
        """The same model with jobs in the best or the worst order."""
        if ordering == self._ordering:
            return self
        return StaggeredModel(
            self._base,
            ordering=ordering,
            penalties=self._penalties,
            alone=self._alone,
            times=self._times,
        )

    def alone(self, spec: JobSpec, size: int) -> float:
        return self._base.alone(spec, size) / self._alone

    def iterations_per_s(
        self, spec: JobSpec, allocation: Allocation, ring: Sequence[tuple[JobSpec, Allocation]]
    ) -> float:
        if not ring:
            return self._base.iterations_per_s(spec, allocation, ()) / self._alone
        group = [(spec, allocation), *ring]
        speeds = [self._base.iterations_per_s(each, held, ()) for each, held in group]
        if not all(speeds):
            return 0.0  # One of them cannot run as it is placed, and all wait for it.
        pairs = zip(group, speeds, strict=True)
        return 1.0 / self._cycle_s([self._stages(each, speed) for (each, _), speed in pairs])

    def kind(self, spec: JobSpec) -> stages.Stages:
        return self._stages(spec, self._base.alone(spec, spec.asked))

    def together(self, specs: Sequence[JobSpec]) -> tuple[float, ...]:
        if len(specs) == 1:
            return (self.alone(specs[0], specs[0].asked),)
        return (1.0 / self.cycle_s(specs),) * len(specs)

    def efficiency(self, specs: Sequence[JobSpec]) -> float:
        """Stage seconds of the group over the four resources' time in one cycle."""
        work = sum(sum(fused(self.kind(spec))) for spec in specs)
        cycle_s = self.cycle_s(specs) if len(specs) > 1 else 1.0 / self.together(specs)[0]
        return work / (SLOTS * cycle_s)

    def cycle_s(self, specs: Sequence[JobSpec]) -> float:
        """One iteration of every job of a group at the asked sizes, penalty included."""
        return self._cycle_s([self.kind(spec) for spec in specs])

    def _stages(self, spec: JobSpec, speed: float) -> stages.Stages:
        """A job's stages where it does so many iterations a second alone."""
        whole = self._times.of(spec)
        if not speed or speed == 1.0 / whole.alone_s:
            return whole
        known = self._stretched.get((id(whole), speed))
        if known is None:
            if len(self._stretched) >= _REMEMBERED_MAX:
                self._stretched.clear()
            stretch = 1.0 / (whole.alone_s * speed)
            known = (whole, stages.Stages(*(seconds * stretch for seconds in whole)))
            self._stretched[id(whole), speed] = known
        return known[1]

    def _cycle_s(self, members: list[stages.Stages]) -> float:
        key = tuple(sorted(map(id, members)))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            penalty = self._penalties[min(len(key), SLOTS)]
            known = (self._bare_cycle_s(sorted(members)) * penalty, members)
            self._known[key] = known
        return known[0]

    def _bare_cycle_s(self, group: Sequence[stages.Stages]) -> float:
        if len(group) > SLOTS:
            return sum(member.alone_s for member in group)  # More jobs than slots.
        members = [fused(member) for member in group]
        times = [cycle(order) for order in set(permutations(members))]
        if len(members) == 2:
            times.append(_with_a_gap(*members))
        # Jobs without known stages run at the pace of the slowest.
        return self._choose(times) or max(member.alone_s for member in group)


def fused(whole: stages.Stages) -> Stages:
    """Muri's three stages: reading and preparing are one."""
    return (whole.load_s + whole.prepare_s, whole.compute_s, whole.sync_s)


def cycle(order: Sequence[Stages]) -> float:
    """Seconds of one cycle, once the jobs in that order run in lock step."""
    places = [*order, *[_EMPTY] * (SLOTS - len(order))] * 3
    bounds = [0.0]  # of slots
    before_s = -inf  # the bound before the last
    for slot in range(2 * SLOTS):
        last_s = bounds[slot]
        networks_s = last_s + places[slot + 1][2]
        computes_s = last_s + places[slot + 2][1]
        bounds.append(max(0.0, networks_s, computes_s, before_s + places[slot + 3][0]))
        before_s = last_s
        if slot >= SLOTS:
            period = bounds[slot + 1] - bounds[slot - 3]
            before = bounds[slot] - bounds[slot - 4]
            if period > 0 and isclose(period, before, rel_tol=1e-3):
                return period
    return bounds[2 * SLOTS] - bounds[SLOTS]


def _with_a_gap(a: Stages, b: Stages) -> float:
    """Two jobs two slots apart: one's data beside the other's compute and network."""
    return max(a[0], b[1] + b[2]) + max(b[0], a[1] + a[2])
