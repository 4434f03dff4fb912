"""One decision of Rubick: which job gets how many devices, where, and from which others.

Everything is tried on a table of holdings (holdings.py) and undone where it fails: a job that finds
no room leaves all others as they were, and a job that gives devices up gets the best plan for those
it keeps.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import NamedTuple

from treadle.core.allocation import Allocation
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.core.waiting_by_kind import Line
from treadle.models.plans.layouts import NOTHING, Counts, layouts, shape
from treadle.models.plans.sensitivity import ENOUGH, Curve
from treadle.policies.base.in_turn import InTurn
from treadle.policies.base.quotas import Left
from treadle.policies.base.restarts import Restarts
from treadle.policies.rubick.holdings import Holdings, less
from treadle.policies.rubick.kinds import Kind, Kinds, Rules

# What the jobs that devices are taken from could give: at least so many, and so many times the size
# that is wanted.
_SPARE_MIN, _SPARE_TIMES = 64, 8
# To make way, at most so many times the fewest nodes are tried, and so many choices of them.
_CLEARED_TIMES = 3
_HAIR_S = 1e-3


class Memory(NamedTuple):
    """What one decision tells the next."""

    restarts: Mapping[JobId, int] = {}  # of jobs that were changed
    meanwhile: frozenset[JobId] = frozenset()  # guaranteed jobs that run without their promise


class _Holder(NamedTuple):
    """A job that could give devices up, as it stands in the order of those who make least."""

    loss: float  # by one device
    turn: int  # among equals
    job: JobId
    size: int
    least: int  # that it must keep
    may_shrink: bool  # where no promise is at stake


class Decision:
    """One decision, tried on a table of holdings."""

    def __init__(self, snapshot: Snapshot, kinds: Kinds, rules: Rules) -> None:
        memory = snapshot.memory if isinstance(snapshot.memory, Memory) else Memory()
        self.holdings = Holdings(snapshot)
        self.restarts = Restarts(snapshot._replace(memory=memory.restarts))
        self._snapshot = snapshot
        self._kinds = kinds
        self._curves = kinds.curves
        self._rules = rules
        # Kinds of waiting jobs for which there was no room just now.
        self._vain: set[Kind] = set()
        self._holders: dict[JobId, _Holder] = {}
        self._order: list[_Holder] = []
        self._spare = 0  # devices that all of them together could give up
        self._by_promises: dict[str, int] | None = None  # nodes; until a job is given more
        self._kept: set[JobId] = set()  # waiting jobs that were given what they were promised
        self._all_kept = False  # whether the others cannot have it now
        # Guaranteed jobs that run as best-effort jobs do, until their promise can be kept.
        self._meanwhile: set[JobId] = set()
        self._meanwhile |= {
            job.id
            for job in snapshot.holding()
            if self.promised(job.spec)
            and (job.id in memory.meanwhile or job.size < self._curves.of(job.spec).minimum)
        }

    def run(self) -> None:
        running = list(self._snapshot.holding())
        waiting = self._kinds.waiting(self._snapshot)
        self._keep_promises(waiting, running)
        self._place_by_gain(waiting, running)

    def _keep_promises(self, waiting: Mapping[Kind, Line], running: Iterable[Job]) -> None:
        """What was promised, to guaranteed jobs that wait or run with less, as far as quotas go."""
        left, turns = self.left(running), InTurn[Kind | None](self._vain)
        for kind, line in waiting.items():
            if kind.promised:
                turns.add((), line, kind)
        for job in running:
            if job.id in self._meanwhile:
                turns.add((), ((job.sequence, job.id),), None)
        for identity, own in turns:
            job = self._snapshot.jobs[identity]
            least = self._curves.of(job.spec).minimum
            self._meanwhile.discard(identity)
            enough = least <= left.of(job.spec)
            if enough and self._promote(job):
                left.use(job.spec, least)
                self._kept.add(identity)
                turns.recall()
            elif own is None:
                self._meanwhile.add(identity)
            elif not enough:
                turns.done.add(own)
        self._vain.clear()  # Those that wait yet are served like best-effort jobs.
        self._all_kept = True

    def _promote(self, job: Job) -> bool:
        """What a job was promised instead of what it holds, if anything; all of it or nothing."""
        mark = self.holdings.mark()
        before = self._speed(job, self.holdings.held.get(job.id, NOTHING))
        if before >= ENOUGH:
            return True  # It has been given as much already.
        if job.allocation is not None:
            self.holdings.set(job.id, NOTHING, None)
        if self.place(job, anew=True):
            after = self._speed(job, self.holdings.held[job.id])
            if job.allocation is None or self._pays(job, before, after):
                return True
        self.holdings.back(mark)
        return False

    def _place_by_gain(self, waiting: Mapping[Kind, Line], running: Iterable[Job]) -> None:
        """All others, by what a device would bring them; of equals, those that are owed first."""
        turns = InTurn[Kind | None](self._vain)
        for kind, line in waiting.items():
            curve = self._curves.of(self._snapshot.jobs[line[0][1]].spec)
            turns.add((-curve.gain(0), not kind.promised), line, kind)
        for job in running:
            curve = self._curves.of(job.spec)
            if len(curve.sizes) > 1:  # Others have all that they can use.
                weight = (-curve.gain(job.size), job.id not in self._meanwhile)
                turns.add(weight, ((job.sequence, job.id),), None)
        for identity, _ in turns:
            job = self._snapshot.jobs[identity]
            had_its_turn = job.allocation is None and identity in self._kept
            if not had_its_turn and self.place(job):
                turns.recall()

    def memory(self, changes: Mapping[JobId, Allocation | None]) -> Memory:
        """What the next decision has to know, if these changes are made."""
        jobs = self._snapshot.jobs
        begun = (job for job, new in changes.items() if new and jobs[job].allocation is None)
        owed = {job for job in begun if self._is_owed(jobs[job].spec)}
        return Memory(self.restarts.after(changes), frozenset(self._meanwhile | owed))

    def left(self, running: Iterable[Job]) -> Left:
        """What promises may still be given."""
        left = Left(self._rules.quotas, self._snapshot.supply)
        for job in running:
            if self.promised(job.spec):
                left.use(job.spec, self._curves.of(job.spec).minimum)
        return left

    def place(self, job: Job, *, anew: bool = False) -> bool:
        """More for a job, step by step; whether it got any. anew: as if it were waiting."""
        running = job.allocation is not None and not anew
        kind, size = self._kinds.of(job.spec), self.holdings.size(job.id)
        if running and (not size or not self.may_change(job)):
            return False  # It was stopped for another job, or is to be left alone.
        if not size and kind in self._vain:
            return False
        curve, mark = self._curves.of(job.spec), self.holdings.mark()
        before = self._speed(job, self.holdings.held.get(job.id, NOTHING))
        while self._climb(job, curve):
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

    def _climb(self, job: Job, curve: Curve) -> bool:
        """The next step of a job's curve that can be had."""
        held = self.holdings.held.get(job.id, NOTHING)
        size = sum(held.values())
        speed = self._speed(job, held)
        lacks = self.promised(job.spec) and speed < ENOUGH
        targets = [(step.size, step.speed) for step in curve.above(size)]
        if self.promised(job.spec) and size < curve.minimum:
            targets = [(s, v) for s, v in curve.sizes if s == curve.minimum]
        for target, value in targets:
            gain = (value - speed) / (target - size)
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
            if all(self._climb(o, self._curves.of(o.spec)) for o in displaced):
                return True
            self.holdings.back(mark)
        return False

    def _clearings(self, size: int) -> Iterator[Counts]:
        """Equal parts of nodes, those first on which the least was promised."""
        if self._by_promises is None:
            self._by_promises = self._nodes_by_promises()
        nodes = self._by_promises
        fewest = -(-size // max(1, *nodes.values()))
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
        least = self._least(identity)
        if size <= least:
            return None
        turn, may_shrink = -job.sequence, self._may_shrink(job)
        return _Holder(self._loss(identity), turn, identity, size, least, may_shrink)

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
        return self._kinds.promised(spec) and not self._is_owed(spec)

    def _is_owed(self, spec: JobSpec) -> bool:
        """Whether a promised job is served like a best-effort one until its promise can be kept."""
        if spec.id in self._meanwhile:
            return True
        if not self._all_kept or spec.id in self._kept:
            return False
        waits = self._snapshot.jobs[spec.id].allocation is None
        return waits and self._kinds.promised(spec)

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
            if job.spec.profile.restart_s > 0 and self._may_gain(job)
        )
        return now + min((gate_s for gate_s in gates if gate_s > 0.0), default=inf)

    def _may_gain(self, job: Job) -> bool:
        """Whether a running job has other sizes, or plans that were not known when it began."""
        if len(self._curves.of(job.spec).sizes) > 1:
            return True
        fresh = job.allocation is not None and job.allocation.host is None
        return fresh and self._rules.moves and self._curves.planned(job.spec)
