"""One decision of Rubick: which job gets how many devices, where, and from which others.

Everything is tried on a table of holdings (holdings.py) and undone where it fails: a job that finds
no room leaves all others as they were, and a job that gives devices up gets the best plan for those
it keeps.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from treadle.core.job import Job, JobId, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.core.wording import span
from treadle.policies.base.quotas import Left, Quotas
from treadle.policies.base.restarts import Restarts
from treadle.policies.rubick.curves import ENOUGH, Curve, Curves
from treadle.policies.rubick.holdings import NOTHING, Counts, Holdings, layouts, less, shape

# What the jobs that devices are taken from could give: at least so many, and so many times the size
# that is wanted.
_SPARE_MIN, _SPARE_TIMES = 64, 8
# To make way, at most so many times the fewest nodes are tried, and so many choices of them.
_CLEARED_TIMES = 3
_HAIR_S = 1e-3


class _Holder(NamedTuple):
    """A job that could give devices up, as it stands in the order of those who make least."""

    loss: float  # by one device
    turn: int  # among equals
    job: JobId
    size: int
    least: int  # that it must keep
    may_shrink: bool  # where no promise is at stake


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user may set."""

    gate: float = 0.9
    restart_s: float = 78.0
    starve_s: float = inf
    moves: bool = True  # devices may be taken from one job for another
    promises: bool = True
    quotas: Quotas | None = None  # None: the whole cluster

    def change_s(self, job: Job) -> float:
        """What a change costs a job: as it was measured, if that is less than is usual."""
        measured_s = job.spec.profile.restart_s
        return min(self.restart_s, measured_s) if measured_s > 0 else self.restart_s


class Decision:
    """One decision, tried on a table of holdings."""

    def __init__(self, snapshot: Snapshot, curves: Curves, rules: Rules) -> None:
        self.holdings = Holdings(snapshot)
        self.restarts = Restarts(snapshot)
        self._snapshot = snapshot
        self._curves = curves
        self._rules = rules
        # Kinds of waiting jobs for which there was no room just now.
        self._vain: set[tuple[int, bool]] = set()
        self._holders: dict[JobId, _Holder] = {}
        self._order: list[_Holder] = []
        self._spare = 0  # devices that all of them together could give up
        self._by_promises: dict[str, int] | None = None  # nodes; until a job is given more

    def run(self) -> None:
        now = self._snapshot.now
        waiting, running = list(self._snapshot.waiting()), list(self._snapshot.holding())
        left = self.left(running)
        others: list[tuple[float, int, Job]] = []
        for job in waiting:
            curve = self._curves.of(job.spec)
            if self.promised(job.spec):
                if curve.minimum <= left.of(job.spec) and self.place(job):
                    left.use(job.spec, curve.minimum)
            else:
                starved = now - job.since_at > self._rules.starve_s
                slope = inf if starved else curve.gain(0)
                others.append((-slope, job.sequence, job))
        for job in running:
            curve = self._curves.of(job.spec)
            if len(curve.sizes) > 1:  # Others have all that they can use.
                others.append((-curve.gain(job.size), job.sequence, job))
        for slope, _, job in sorted(others):
            self.place(job, starved=slope == -inf)

    def left(self, running: Iterable[Job]) -> Left:
        """What promises may still be given."""
        left = Left(self._rules.quotas, self._snapshot.supply)
        for job in running:
            if self.promised(job.spec):
                left.use(job.spec, self._curves.of(job.spec).minimum)
        return left

    def place(self, job: Job, *, starved: bool = False) -> bool:
        """More for a job, step by step; whether it got any."""
        running = job.allocation is not None
        size, curve = self.holdings.size(job.id), self._curves.of(job.spec)
        if running and (not size or not self.may_change(job)):
            return False  # It was stopped for another job, or is to be left alone.
        kind = (id(curve), self.promised(job.spec))
        if not size and kind in self._vain and not starved:
            return False
        mark = self.holdings.mark()
        before = self._speed(job, self.holdings.held.get(job.id, NOTHING))
        while self._climb(job, curve, starved=starved):
            pass
        if not size and not self.holdings.size(job.id):
            if self.promised(job.spec):
                self._insist(job, curve)
            else:
                self._squeeze_in(job, curve)
        after = self.holdings.held.get(job.id, NOTHING)
        if sum(after.values()) == size:
            if not size:
                self._vain.add(kind)
            return False
        if running and not self._pays(job, before, self._speed(job, after)):
            self.holdings.back(mark)
            return False
        self._vain.clear()
        self._by_promises = None
        return True

    def _climb(self, job: Job, curve: Curve, *, starved: bool) -> bool:
        """The next step of a job's curve that can be had."""
        held = self.holdings.held.get(job.id, NOTHING)
        size = sum(held.values())
        speed = self._speed(job, held)
        lacks = self.promised(job.spec) and speed < ENOUGH
        targets = [(step.size, step.speed) for step in curve.above(size)]
        if self.promised(job.spec) and size < curve.minimum:
            targets = [(s, v) for s, v in curve.sizes if s == curve.minimum]
        for target, value in targets:
            gain = inf if starved else (value - speed) / (target - size)
            if gain > 0 and self._take(job, target, speed, gain, lacks=lacks):
                return True
        return False

    def _squeeze_in(self, job: Job, curve: Curve) -> None:
        """Any size at all that free devices allow, for a job that waits."""
        for size, _ in reversed(curve.sizes):
            if self._lay_out(job, size, self.holdings.room(NOTHING), 0.0):
                return

    def _insist(self, job: Job, curve: Curve) -> None:
        """What was promised to a job that waits: others make way, or it gets more than it needs."""
        if self._rules.moves and self._make_way(job, curve):
            return
        for size, value in curve.sizes:
            wanted = curve.minimum < size <= job.spec.asked
            if wanted and self._take(job, size, 0.0, value / size, lacks=True):
                return

    def _make_way(self, job: Job, curve: Curve) -> bool:
        """Let promised jobs move elsewhere for one that finds its devices nowhere together.

        They keep what they were promised: all of them find room again, or none moves.
        """
        mark = self.holdings.mark()
        for counts in self._clearings(curve.minimum):
            found = self._curves.speed(job.spec, shape(counts))
            if found is None or found.value < ENOUGH:
                continue
            displaced = [d for node, count in counts.items() for d in self._clear(node, count)]
            self.holdings.set(job.id, counts, found.plan)
            displaced.sort(key=lambda other: (-self._curves.of(other.spec).minimum, other.sequence))
            if all(self._climb(o, self._curves.of(o.spec), starved=False) for o in displaced):
                return True
            self.holdings.back(mark)
        return False

    def _clearings(self, size: int) -> Iterator[Counts]:
        """Equal parts of nodes, those first on which the least was promised."""
        if self._by_promises is None:
            self._by_promises = self._nodes_by_promises()
        nodes = self._by_promises
        fewest = -(-size // max(nodes.values(), default=1))
        for parts in range(fewest, min(len(nodes), _CLEARED_TIMES * fewest) + 1):
            each, rest = divmod(size, parts)
            if rest:
                continue
            fitting = [node for node, room in nodes.items() if room >= each]
            for first in range(min(len(fitting) - parts + 1, _CLEARED_TIMES)):
                yield dict.fromkeys(fitting[first : first + parts], each)

    def _nodes_by_promises(self) -> dict[str, int]:
        """Nodes with their devices, in the order of how many of those were promised."""
        room, promised = dict(self.holdings.free), dict.fromkeys(self.holdings.free, 0)
        for job, counts in self.holdings.held.items():
            least = self._least(job)
            for node, count in counts.items():
                if node in room:
                    room[node] += count
                    promised[node] += min(count, least)
        return {node: room[node] for node in sorted(room, key=promised.__getitem__)}

    def _clear(self, node: str, count: int) -> list[Job]:
        """Free devices of a node, held or not; the promised jobs that have to go."""
        holdings, displaced = self.holdings, list[Job]()
        here = sorted(
            holdings.on[node],
            key=lambda job: (self._is_promised(job), -self._snapshot.jobs[job].sequence),
        )
        for identity in here:
            if holdings.free[node] >= count:
                break
            if self._is_promised(identity):
                displaced.append(self._snapshot.jobs[identity])
            holdings.set(identity, NOTHING, None)
        return displaced

    def _take(self, job: Job, size: int, speed: float, gain: float, *, lacks: bool) -> bool:
        """Bring a job to a size, from free devices or from jobs that make less of them."""
        holdings = self.holdings
        held = holdings.held.get(job.id, NOTHING)
        missing = size - sum(held.values()) - holdings.total
        if missing <= 0 and self._lay_out(job, size, holdings.room(held), speed):
            return True
        victims = {}
        if self._rules.moves:
            victims = self._victims(job, size, missing, gain, lacks=lacks)
        if not victims:
            return False
        spare = {victim: holdings.size(victim) - floor for victim, floor in victims.items()}
        for counts in layouts(size, holdings.room(held, spare), held):
            mark = holdings.mark()
            if self._cleared(counts, held, victims) and self._enter(job, counts, speed):
                return True
            holdings.back(mark)
        return False

    def _lay_out(self, job: Job, size: int, room: Counts, speed: float) -> bool:
        found = list(layouts(size, room, self.holdings.held.get(job.id, NOTHING)))
        found.sort(key=lambda counts: -self._speed(job, counts))
        return bool(found) and self._enter(job, found[0], speed)

    def _enter(self, job: Job, counts: Counts, speed: float) -> bool:
        """Give a job these, if it is then faster, and as fast as was promised or could be."""
        found = self._curves.speed(job.spec, shape(counts))
        if found is None or found.value <= speed * 1.01:
            return False
        short = self.promised(job.spec) and found.value < ENOUGH
        if short and sum(counts.values()) < job.spec.asked:
            return False
        self.holdings.set(job.id, counts, found.plan)
        return True

    def _victims(
        self, job: Job, size: int, missing: int, gain: float, *, lacks: bool
    ) -> dict[JobId, int]:
        """Jobs that make less of some devices, with the size down to which they do.

        Those that make the least come first, and there are enough when they could give several
        times what is wanted: some of it may lie where it is of no use.
        """
        floors: dict[JobId, int] = {}
        enough = _SPARE_MIN + _SPARE_TIMES * size
        order = self._by_loss()
        if missing > self._spare:
            return floors
        for holder in order:
            if enough <= 0 or (holder.loss >= gain and not lacks):
                break
            if holder.job == job.id or not (holder.may_shrink or lacks):
                continue
            floor = holder.least
            if not lacks:
                curve = self._curves.of(self._snapshot.jobs[holder.job].spec)
                floor = curve.floor(holder.size, holder.least, gain)
            if floor < holder.size:
                floors[holder.job] = floor
                enough -= holder.size - floor
        return floors

    def _by_loss(self) -> list[_Holder]:
        """Jobs with devices, by what they would lose; only those that changed are moved."""
        order = self._order
        for identity in self.holdings.touched:
            before = self._holders.pop(identity, None)
            if before is not None:
                del order[bisect_left(order, before)]
                self._spare -= before.size - before.least
            holder = self._holder(identity)
            if holder is not None:
                self._holders[identity] = holder
                self._spare += holder.size - holder.least
                insort(order, holder)
        self.holdings.touched.clear()
        return order

    def _holder(self, identity: JobId) -> _Holder | None:
        """A job among those that could give something up; None if it cannot."""
        size, job = self.holdings.size(identity), self._snapshot.jobs[identity]
        curve, least = self._curves.of(job.spec), self._least(identity)
        if size <= least:
            return None
        loss = curve.gain(curve.below(size))
        return _Holder(loss, -job.sequence, identity, size, least, self._may_shrink(job))

    def _cleared(self, counts: Counts, own: Counts, victims: Mapping[JobId, int]) -> bool:
        """Make room on each node by taking from the job that gains least from its devices there."""
        holdings = self.holdings
        for node, count in counts.items():
            while holdings.free[node] + own.get(node, 0) < count:
                here = [
                    v for v in holdings.on[node] if v in victims and holdings.size(v) > victims[v]
                ]
                here.sort(key=lambda v: (self._loss(v), -self._snapshot.jobs[v].sequence))
                if not any(self._shrink(v, node, victims[v]) for v in here):
                    return False
        return True

    def _loss(self, identity: JobId) -> float:
        """What each device brings that would be taken first from a job."""
        curve = self._curves.of(self._snapshot.jobs[identity].spec)
        return curve.gain(curve.below(self.holdings.size(identity)))

    def _shrink(self, identity: JobId, node: str, floor: int) -> bool:
        """Take the next step down from a job, off this node first; whether it was possible."""
        spec = self._snapshot.jobs[identity].spec
        counts, size = self.holdings.held[identity], self.holdings.size(identity)
        target, curve = size, self._curves.of(spec)
        while target > floor:
            target = max(curve.below(target), floor)
            left = less(counts, size - target, node)
            if any(name not in self.holdings.free for name in left):
                continue  # A job that is changed may not stay on a node that is being drained.
            found = self._curves.speed(spec, shape(left)) if target else None
            if target and (found is None or (self.promised(spec) and found.value < ENOUGH)):
                continue
            self.holdings.set(identity, left, None if found is None else found.plan)
            return True
        return False

    def _is_promised(self, identity: JobId) -> bool:
        return self.promised(self._snapshot.jobs[identity].spec)

    def _least(self, identity: JobId) -> int:
        """The devices that a job must keep."""
        spec = self._snapshot.jobs[identity].spec
        return self._curves.of(spec).minimum if self.promised(spec) else 0

    def promised(self, spec: JobSpec) -> bool:
        """Whether a job has a promise, which the empty cluster and its quota could keep."""
        if not (spec.guaranteed and self._rules.promises):
            return False
        curve, quotas = self._curves.of(spec), self._rules.quotas
        return curve.keeps and (quotas is None or curve.minimum <= quotas.get(spec.tenant, 0.0))

    def _speed(self, job: Job, counts: Counts) -> float:
        found = self._curves.speed(job.spec, shape(counts)) if counts else None
        return 0.0 if found is None else found.value

    def may_change(self, job: Job) -> bool:
        """Whether enough of a running job's time would not be lost to restarts."""
        return self.gated_s(job) <= 0.0

    def gated_s(self, job: Job) -> float:
        """How long a running job is left alone before another restart costs it little enough."""
        held_s = job.held_at(self._snapshot.now)
        lost_s = (self.restarts.of(job) + 1) * self._rules.change_s(job)
        if held_s - lost_s >= self._rules.gate * held_s:
            return 0.0
        if self._rules.gate >= 1.0:
            return inf
        left_s = lost_s / (1.0 - self._rules.gate) - held_s
        # At the moment that was said before, rounding must not leave a rest that time cannot show.
        return left_s if left_s > _HAIR_S else 0.0

    def _may_shrink(self, job: Job) -> bool:
        """Whether devices may be taken from a job where no promise is at stake."""
        if job.allocation is None:
            return True  # It has not even begun.
        rules, now = self._rules, self._snapshot.now
        change_s = rules.change_s(job)
        if job.iterations_per_s and job.remaining_at(now) < change_s * job.iterations_per_s:
            return False
        held_s = job.held_at(now)
        return held_s - self.restarts.of(job) * change_s >= rules.gate * held_s

    def _pays(self, job: Job, before: float, after: float) -> bool:
        """Whether a running job ends sooner for being stopped and made faster."""
        if not job.iterations_per_s or not before:
            return after > before  # It is starting, and its end is unknown.
        left_s = job.remaining_at(self._snapshot.now) / job.iterations_per_s
        return left_s * before / after + self._rules.change_s(job) < left_s

    def next_gate_at(self) -> float:
        """When the next job may change that is left alone and whose changes were measured.

        Of others the cost is a guess, and the next event is soon enough.
        """
        now = self._snapshot.now
        gates = (
            self.gated_s(job)
            for job in self._snapshot.holding()
            if job.spec.profile.restart_s > 0 and len(self._curves.of(job.spec).sizes) > 1
        )
        return now + min((gate_s for gate_s in gates if gate_s > 0.0), default=inf)

    def why_no_more(self, job: Job) -> str:
        """Why a running job is not given free devices, as a clause; empty: another reason."""
        rules, curve = self._rules, self._curves.of(job.spec)
        above = curve.above(job.size)
        if not above:
            return "more are expected to bring it little"
        cost = f"a change costs it {span(rules.change_s(job))}"
        if (gate_s := self.gated_s(job)) > 0.0:
            kept = f"keeps {rules.gate:.0%} of its time free of changes"
            return f"{cost}, and rubick {kept}; it may grow in {span(gate_s)}"
        speed = self._speed(job, self.holdings.held.get(job.id, NOTHING))
        if not any(self._pays(job, speed, step.speed) for step in above):
            return f"{cost} and does not pay before it ends"
        return ""
