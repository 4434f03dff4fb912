"""AITurbo (Zhao et al., HPDC'21): jobs whose end can be predicted and jobs whose end cannot.

Every job is ranked by attained service; those that can be predicted also by their value, which is
what a round of running saves over the service that they still take. A Borda count makes one order
of the two (`borda.py`), and the order makes three levels:

- a job that has been given much service falls at least to the second or third level;
- a job that has waited long, for the time it has run, rises to the first and is counted again;
- within a level those that run stay, and others join in the order in which they came to it;
- a waiting job may take devices from jobs of lower levels, the youngest first, and only if that
  lets it run. A job that can shrink gives some, any other gives all.

So far a light round, at every arrival and end. A full round, every few minutes, counts again and
moves devices (`moves.py`): running jobs shrink by a step so that more of those that wait can run,
and idle devices, GPUs or CPU slots, go where they save most time for the share that they are of the
cluster, if that pays for the restart. No running job moves twice in a round.

`fidelity=raw` is the rule of the public controller: plain ranks, fixed borders, no job evicted for
another between full rounds, and all jobs taken in order in each of them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.ports import PerformanceModel
from treadle.core.ranking import Rank
from treadle.core.snapshot import Schedule, Snapshot
from treadle.models.change_costs import RESTART_S
from treadle.models.workers import is_cpu_only
from treadle.policies.aiturbo.borda import Ballot, level, raw_level, raw_scores, scores
from treadle.policies.aiturbo.moves import Moves, Values, cpu_nodes
from treadle.policies.base.placement import Count, Fit, Placement
from treadle.policies.base.shares import Sharing

_ROUNDING = 1e-6


class Place(NamedTuple):
    """Where a job stands from round to round."""

    level: int
    entered_at: float  # into its level
    forgiven: float = 0.0  # service that no longer counts against it
    score: float = 0.0
    grows: bool = True  # whether its best move takes devices


class Memory(NamedTuple):
    """What one decision leaves for the next; without it, all jobs are ranked again."""

    places: Mapping[JobId, Place] = {}
    full_at: float = -inf  # when the next full round is due


class AITurbo(Sharing):
    """Least service and best value by a Borda count, in three levels; sizes by marginal value."""

    knows_slots = True

    def __init__(
        self,
        placement: Placement,
        belief: PerformanceModel,
        *,
        fidelity: str = "ours",
        every_s: float = 240.0,
        limits: tuple[float, ...] = (36000.0, 360000.0),
        patience: float = 2.0,
        patience_s: float = 1800.0,
        restart_s: float = RESTART_S,
    ) -> None:
        if fidelity not in {"ours", "raw"}:
            raise InvalidInputError(f"aiturbo fidelity is ours or raw, not {fidelity!r}")
        if not every_s > 0:
            raise InvalidInputError(f"aiturbo every_s must be above 0, not {every_s:g}")
        if not limits or list(limits) != sorted(set(limits)) or limits[0] <= 0 or len(limits) > 2:
            raise InvalidInputError(
                f"aiturbo limits are one or two, ascending from above 0, not {limits}"
            )
        if not (patience >= 0 and patience_s >= 0 and restart_s >= 0):
            raise InvalidInputError("aiturbo patience, patience_s and restart_s must be 0 or above")
        super().__init__(placement)
        self._values = Values(belief, restart_s)
        self._raw = fidelity == "raw"
        self._every_s = every_s
        self._limits = limits
        self._patience = patience
        self._patience_s = patience_s
        self._slot_fit = Fit(Count())

    def rank(self, job: Job, now: float) -> Rank:  # noqa: ARG002
        return Rank(job.sequence)

    def never_fits(self, spec: JobSpec, cluster: Cluster) -> str | None:
        slots = cpu_nodes(cluster)
        if slots and is_cpu_only(spec):
            return self._slot_fit.never(spec.sizes[0], cluster.part(slots))
        return self._fit.never(spec.sizes[0], cluster.part(cluster.names - slots))

    def decide(self, snapshot: Snapshot) -> Schedule:
        now, memory = snapshot.now, _memory(snapshot)
        is_full = not snapshot.free.total and not snapshot.ranking.queue
        if is_full or self.nothing_to_do(snapshot):
            # Until something happens, and that is then a full round.
            return Schedule(memory=Memory(memory.places))
        active = [*snapshot.holding(), *snapshot.waiting()]
        full = now + _ROUNDING >= memory.full_at
        full_at = now + self._every_s if full else memory.full_at
        if full:
            places = self._counted(active, memory.places, now)
        else:  # A new job has had no service and stands in front.
            places = {job.spec.id: memory.places.get(job.spec.id, Place(0, now)) for job in active}
        remembered = Memory(places, full_at)
        if self._raw:
            sizes = self._in_turn(snapshot, active, places, full=full)
            return Schedule(self.schedule(snapshot, sizes).changes, full_at, remembered)
        levels = {identity: place.level for identity, place in places.items()}
        moves = Moves(snapshot, self._placement, self._values, levels)
        waiting = [job for job in active if job.allocation is None]
        waiting.sort(key=lambda job: _turn(places[job.spec.id], job))
        moves.admit(waiting)
        if full:
            moves.trade(waiting)
        return Schedule(moves.changes, full_at, remembered)

    def _counted(
        self, active: list[Job], before: Mapping[JobId, Place], now: float
    ) -> dict[JobId, Place]:
        """Each job's place by a fresh count."""
        ballots: list[Ballot] = []
        forgiven: dict[JobId, tuple[float, bool]] = {}  # service, and whether it is overdue
        for job in active:
            identity, service = job.spec.id, job.service_at(now)
            old, overdue = before.get(identity), self._is_overdue(job, now)
            excused = service if overdue else 0.0 if old is None else old.forgiven
            forgiven[identity] = excused, overdue
            move = self._values.best_move if self._raw else self._values.of
            ballots.append(Ballot(identity, service - excused, *move(job, now)))
        found = raw_scores(ballots) if self._raw else scores(ballots)
        places: dict[JobId, Place] = {}
        for identity, service, _, grows in ballots:
            score, old = found[identity], before.get(identity)
            excused, overdue = forgiven[identity]
            new = 0 if overdue else self._level(score, service, old)
            since_at = old.entered_at if old is not None and old.level == new else now
            places[identity] = Place(new, since_at, excused, score, grows)
        return places

    def _level(self, score: float, service: float, old: Place | None) -> int:
        if self._raw:
            return raw_level(score)
        lowest = bisect_right(self._limits, service)
        return max(lowest, level(score, before=None if old is None else old.level))

    def _in_turn(
        self, snapshot: Snapshot, active: list[Job], places: Mapping[JobId, Place], *, full: bool
    ) -> dict[JobId, int]:
        """Sizes by the public controller's walk: jobs that still fit, in order of score."""
        sizes = {} if full else {job.spec.id: job.size for job in active if job.size}
        left = snapshot.supply - sum(sizes.values())
        for job in sorted(active, key=lambda job: _score(places[job.spec.id], job)):
            if job.spec.id in sizes:
                continue
            wanted = job.size or job.spec.asked
            if full and job.size and places[job.spec.id].grows:
                wanted = next((s for s in job.spec.sizes if s > wanted), wanted)
            elif full and job.size:
                wanted = max((s for s in job.spec.sizes if s < wanted), default=wanted)
            fits = [size for size in job.spec.sizes if size <= min(wanted, left)]
            if fits:
                sizes[job.spec.id] = fits[-1]
                left -= fits[-1]
        return sizes

    def _is_overdue(self, job: Job, now: float) -> bool:
        """Whether a job that waits has waited too long, for the time that it has run."""
        if self._raw or not job.starts or job.allocation is not None:
            return False
        return now - job.since_at >= max(self._patience_s, self._patience * job.held_s)


def _memory(snapshot: Snapshot) -> Memory:
    return snapshot.memory if isinstance(snapshot.memory, Memory) else Memory()


def _turn(place: Place, job: Job) -> tuple[int, float, float, int]:
    """First come, first served in a level; of those that came in one round, the best first."""
    return place.level, place.entered_at, place.score, job.sequence


def _score(place: Place, job: Job) -> tuple[int, float, int]:
    return place.level, place.score, job.sequence
