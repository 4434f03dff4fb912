"""Treadle's model of sharing: every resource serves its waiting jobs in fair turns, without lock
step.

A job loads from storage, prepares on the CPU, computes on the device and synchronises over the
network. Each resource has tokens (one, or as many as it has lanes). A job needs a token for the
stage it is in, and waiting jobs get it in turn. Jobs with different bottlenecks hardly slow each
other; jobs with the same one halve each other's speed; a short job does not wait for a long one's
pace.

Waits come from mean value analysis (Reiser and Lavenberg, 1980). A job that arrives at a resource
finds the others there as often as they would be there without it, so the speeds in a group follow
from those in every smaller group, from pairs up:

    time in a group  =  time alone + the waits at every resource
    wait for another =  how often it is there × the longer of one's own stage and half its turn

While both have work, taking turns with another costs a job as much time as its own stage; and even
the shortest stage waits for the rest of a turn that has begun, half of one on average. The answer
is exact for very short turns at resources of one lane, where jobs go through their stages one after
another and meet by chance. Otherwise it is, on average, a few per cent from a simulation turn by
turn (tests/exact/test_turn_by_turn.py).

What it leaves out: an iteration keeps its shape at every size; a job that overlaps its stages pays
for each wait in full, though it could hide some; jobs that share some devices count as sharing all.
"""

from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from treadle.core.job import JobSpec
from treadle.core.ports import PerformanceModel
from treadle.models.speeds_together import SpeedsTogether
from treadle.models.stages import Stages, StageTimes

# Fitted to five groups measured on one H200 (tests/exact/test_measured_sharing.py).
TURN_S = 0.032
# Larger groups use an approximation, because the exact cost doubles with every member.
EXACT_MAX = 6
ROUNDS_MAX = 100  # for larger groups; a dozen or two are usual
TOLERANCE = 1e-6
_REMEMBERED_MAX = 100_000  # groups


class Lanes(NamedTuple):
    """How many jobs each resource serves at once without slowing any of them."""

    storage: int = 1
    cpu: int = 4
    device: int = 1
    network: int = 1


LANES = Lanes()


class TokenModel(SpeedsTogether):
    """Speeds of jobs that take turns at each resource; `base` gives their speed alone."""

    def __init__(
        self,
        base: PerformanceModel,
        times: StageTimes,
        *,
        lanes: Lanes = LANES,
        turn_s: float = TURN_S,
    ) -> None:
        assert min(lanes) >= 1, f"every resource needs a lane, not {lanes}"
        super().__init__(base)
        self._times = times
        self._lanes = lanes
        self._turn_s = turn_s
        self._known: dict[tuple[Stages, ...], dict[Stages, float]] = {}

    def kind(self, spec: JobSpec) -> Stages:
        return self._times.of(spec)

    def relative(self, specs: Sequence[JobSpec]) -> list[float]:
        """The speed of each job as a share of its speed alone."""
        kinds = [self._times.of(spec) for spec in specs]
        key = tuple(sorted(kinds))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            times = iteration_times(key, lanes=self._lanes, turn_s=self._turn_s)
            known = {kind: kind.alone_s / time for kind, time in zip(key, times, strict=True)}
            self._known[key] = known
        return [known[kind] for kind in kinds]


class _Resource(NamedTuple):
    """A resource with more users in the group than lanes."""

    lanes: int
    service_s: tuple[float, ...]  # of each member, in one iteration
    wait_s: list[list[float]]  # [i][j]: i's wait in one iteration if j is always there


# [resource][member]: the share of its time that a member is there, waiting or served.
_Presence = list[list[float]]


def iteration_times(group: Sequence[Stages], *, lanes: Lanes, turn_s: float) -> list[float]:
    """Seconds that one iteration of each member takes in this group."""
    alone = [stages.alone_s for stages in group]
    resources = _contended(group, lanes, turn_s)
    if not resources:
        return alone
    return _exact(alone, resources) if len(group) <= EXACT_MAX else _crowd(alone, resources)


def _contended(group: Sequence[Stages], lanes: Lanes, turn_s: float) -> list[_Resource]:
    *stages, alone = zip(*group, strict=True)
    resources = []
    for width, stage in zip(lanes, stages, strict=True):
        if len(stage) - stage.count(0.0) > width:
            # No stage is longer than its iteration, whatever a profile says.
            service = tuple(map(min, stage, alone))
            half_turns = [min(turn_s, service_s) / 2 for service_s in service]
            waits = [_waits(member, service, half_turns) for member in range(len(group))]
            resources.append(_Resource(width, service, waits))
    return resources


def _waits(member: int, service: Sequence[float], half_turns: Sequence[float]) -> list[float]:
    own_s = service[member]
    if own_s == 0:
        return [0.0] * len(service)
    waits = [max(half_s, own_s) for half_s in half_turns]
    waits[member] = 0.0
    return waits


def _exact(alone: Sequence[float], resources: Sequence[_Resource]) -> list[float]:
    """Solve every group, then the groups with one more member; a group is a bit mask."""
    members = range(len(alone))
    visits = [
        [
            (place, resource.lanes, resource.wait_s[member], resource.service_s[member])
            for place, resource in enumerate(resources)
            if resource.service_s[member] > 0
        ]
        for member in members
    ]
    found: list[_Presence] = [_empty(alone, resources)]
    times = list(alone)
    for group in range(1, 1 << len(alone)):
        presence = _empty(alone, resources)
        for member in members:
            if not group >> member & 1:
                continue
            others = found[group ^ 1 << member]
            time = alone[member]
            stays = []
            for place, lanes, wait_s, service_s in visits[member]:
                delay = sum(map(mul, wait_s, others[place]))
                if lanes > 1:
                    delay *= _crowding(others[place], lanes)
                time += delay
                stays.append((presence[place], service_s + delay))
            for row, stay_s in stays:
                row[member] = stay_s / time
            times[member] = time
        found.append(presence)
    return times


def _empty(alone: Sequence[float], resources: Sequence[_Resource]) -> _Presence:
    return [[0.0] * len(alone) for _ in resources]


def _crowd(alone: Sequence[float], resources: Sequence[_Resource]) -> list[float]:
    """Iterate to a fixed point, with an estimate of the others' speeds without a member.

    The estimate is their time with it, less their waits for it; this is a few per cent too slow.
    """
    members = range(len(alone))
    # [resource][i][j]: seconds that i waits for j.
    delays = [[[0.0] * len(alone) for _ in members] for _ in resources]
    times = list(alone)
    for _ in range(ROUNDS_MAX):
        before = times
        beside = [_without(member, times, resources, delays) for member in members]
        delays = [
            [_delays(resource, member, beside[member][place]) for member in members]
            for place, resource in enumerate(resources)
        ]
        times = [
            alone_s + sum(sum(rows[member]) for rows in delays)
            for member, alone_s in enumerate(alone)
        ]
        if all(abs(a - b) <= TOLERANCE * a for a, b in zip(times, before, strict=True)):
            break
    return times


def _without(
    member: int,
    times: Sequence[float],
    resources: Sequence[_Resource],
    delays: Sequence[list[list[float]]],
) -> _Presence:
    """How often the others would be at each resource if this member were not in the group."""
    iterations = [
        time - sum(rows[other][member] for rows in delays) for other, time in enumerate(times)
    ]
    presence = [
        [
            (service_s + sum(row) - row[member]) / iteration_s
            for service_s, row, iteration_s in zip(
                resource.service_s, rows, iterations, strict=True
            )
        ]
        for resource, rows in zip(resources, delays, strict=True)
    ]
    for shares in presence:
        shares[member] = 0.0
    return presence


def _delays(resource: _Resource, member: int, present: Sequence[float]) -> list[float]:
    part = _crowding(present, resource.lanes) if resource.lanes > 1 else 1.0
    return [
        wait_s * share * part
        for wait_s, share in zip(resource.wait_s[member], present, strict=True)
    ]


def _crowding(present: Sequence[float], lanes: int) -> float:
    """The wait with several lanes, as a share of the wait with one.

    With n others there, each job's share of a lane is lanes / (n + 1), up to 1.
    """
    chances = [1.0]  # of finding none, one, two, ... others
    for share in present:
        if share > 0:
            fewer = [0.0, *(chance * share for chance in chances)]
            same = [*(chance * (1.0 - share) for chance in chances), 0.0]
            chances = [a + b for a, b in zip(fewer, same, strict=True)]
    excess = sum(
        chance * ((others + 1) / lanes - 1.0)
        for others, chance in enumerate(chances)
        if others >= lanes
    )
    return excess / sum(present) if excess > 0 else 0.0
