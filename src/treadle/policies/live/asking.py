"""Asking a policy: about one line of jobs and one pool of devices at a time.

Jobs of lower lines make way: at any cost for those of a higher level, if it pays for those of the
same level who are within their users' shares.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf

from treadle.core.cluster import Device
from treadle.core.job import Job, JobId
from treadle.core.ports import Policy
from treadle.core.snapshot import Snapshot
from treadle.policies.live.costs import Part
from treadle.policies.live.eligibility import Eligibility, Level, Line, LineOf, lingers
from treadle.policies.live.plan import Plan
from treadle.policies.live.pools import Pool, Types, pools_of, shown
from treadle.policies.live.sharing import short_of_cores
from treadle.policies.live.views import view

Key = tuple[Line, Types]  # what a policy is asked about at once
Question = tuple[Line, Types, Line | None]  # the same, and the highest line that makes way
Quiet = tuple[object, float]  # what it saw when it changed nothing, and until when that holds


class Sight:
    """Whom the policy may be asked about in a decision: lines of jobs, and pools of devices."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, eligible: Eligibility, line_of: LineOf
    ) -> None:
        self.policy, self.fixed, self.holding = policy, eligible.fixed, eligible.holding
        self.waiting = eligible.in_sight()
        self.line = {job.id: line_of(job) for job in (*self.holding, *self.waiting)}
        self.lines = sorted(set(self.line.values()))  # the first first
        self.pools = pools_of(snapshot, policy)


class Asking:
    """The policy's answers to one plan, and what it wants to remember."""

    def __init__(
        self,
        sight: Sight,
        plan: Plan,
        notes: Mapping[Key, object],
        quiet: Mapping[Question, Quiet],
        aside: Set[JobId],
    ) -> None:
        """aside: jobs that are not shown."""
        self._policy, self._plan = sight.policy, plan
        self._snapshot = plan.snapshot
        self._fixed, self._holding, self._waiting = sight.fixed, sight.holding, sight.waiting
        self._line, self._lines, self._pools = sight.line, sight.lines, sight.pools
        self._several = len(sight.lines) * len(sight.pools) > 1
        self._notes, self._quiet, self._aside = notes, quiet, aside
        self.until = inf
        self.notes = dict(notes)
        self.quiet: dict[Question, Quiet] = {}

    def ask(self, line: Line) -> None:
        """Settle what the policy decides about a line, on what higher ones left."""
        for pool, members in self._pools:
            mine = self._shown(line, members)
            if mine:
                self._ask_about(line, pool, mine)
        self._start_in_parts(line)
        if any(len(pool.types) > 1 for pool, _ in self._pools) or len(self._pools) > 1:
            self._start_elsewhere(line)
        if len(self._pools) > 1:
            self._ask_for_guests(line)

    def restart(self, line: Line) -> None:
        """Let jobs that were stopped go on where devices are left."""
        for job in self._holding:
            stopped = self._waits(job.id) and job.id not in self._plan.paused
            if self._line[job.id] == line and stopped:
                self._plan.start_somewhere(job)

    def _ask_about(self, line: Line, pool: Pool, mine: set[JobId]) -> None:
        """Jobs of lower levels make way if what is free is too little for those that wait.

        They do so before the policy may stop or shrink jobs of the line itself.
        """
        key, free = (line, pool.types), self._free_in(pool)
        waiting = [job for job in self._waiting if job.id in mine and self._waits(job.id)]
        short = sum(job.spec.sizes[0] for job in waiting) > free
        if short:
            self._ask_lower(key, pool, waiting)
        self._ask(key, pool, mine, lower=())
        if not short:  # What is free may be in pieces.
            self._ask_lower(key, pool, waiting)

    def _ask_lower(self, key: Key, pool: Pool, waiting: Iterable[Job]) -> None:
        """The lowest line makes way first, then the next one too, while a job waits."""
        count, lower = pool.cluster.device_count, list[JobId]()
        for line in reversed([line for line in self._lines if line > key[0]]):
            stuck = {
                job.id for job in waiting if self._waits(job.id) and job.spec.sizes[0] <= count
            }
            own = self._who_may_make_way(line)
            if stuck and own:
                lower += own
                urgent = {*self._plan.urgent}
                self._ask(key, pool, stuck, lower)
                if line[:2] == key[0][:2]:
                    self._plan.urgent = urgent

    def next_aside(self, refused: Sequence[Part]) -> set[JobId]:
        """Whom to leave aside if the policy is asked again: what it chose for them was not made.

        So are the jobs that run on as they are. It is asked where others might start.
        """
        rows, in_order = self._snapshot.jobs, self._policy.in_order
        dropped = {name for name in self._plan.dropped if self._waits(name)}
        room = self._plan.room
        found = {name for name in dropped if not in_order or not self._plan.holds_up(rows[name])}
        if room.taken is not None and found:  # Nor could others of the same user.
            waiting = (job for job in self._waiting if self._waits(job.id))
            found.update(job.id for job in waiting if room.is_too_many(job, job.spec.sizes[0]))
        if not (found or refused or self._plan.kept) or not self._others_fit(found):
            return set()
        found.update(job.id for job in self._holding if job.id not in self._plan.changes)
        return found

    def _others_fit(self, dropped: Set[JobId]) -> bool:
        """Whether what is free has room for a waiting job that is shown and was not dropped."""
        room, tried = self._plan.room, set[object]()
        for job in self._waiting if room.free.total else ():
            if job.id in self._aside or job.id in dropped or not self._waits(job.id):
                continue
            least = job.spec.sizes[0]
            kind = (least, room.needs(job), job.spec.tenant, self._line[job.id])
            if kind not in tried and room.place(job, least) is not None:
                return True
            tried.add(kind)
        return False

    # -- one question -----------------------------------------------------------------------------

    def _ask(self, key: Key, pool: Pool, mine: set[JobId], lower: Sequence[JobId]) -> None:
        seen = view(self._plan, mine, lower, pool.cluster, self._withheld(mine))
        seen = seen._replace(
            memory=self._note(key),
            cluster=shown(
                seen.cluster, (self._snapshot.jobs[name].spec for name in mine), self._policy
            ),
        )
        basis, question = None, (*key, self._line[lower[-1]] if lower else None)
        if self._several:  # Otherwise something has changed, or there would be no decision.
            basis, known = _basis(seen), self._quiet.get(question)
            if known is not None and known[0] == basis and self._snapshot.now < known[1]:
                self.quiet[question], self.until = known, min(self.until, known[1])
                return
        schedule = self._policy.decide(seen)
        self.notes[key] = schedule.memory
        self.until = min(self.until, schedule.valid_until)
        changes = dict(schedule.changes)
        if self._policy.shares:
            for name in short_of_cores(self._plan, changes, lower):
                del changes[name]
        if not changes and self._several:
            self.quiet[question] = (basis, schedule.valid_until)
        self._plan.settle(changes, lower, in_order=self._policy.in_order)

    def _note(self, key: Key) -> object:
        """What the policy remembers of this, or of what is nearest to it of the same level."""
        if key in self.notes:
            return self.notes[key]
        line, types = key
        near = [
            one
            for one in self._notes
            if one[0][:2] == line[:2] and not set(one[1]).isdisjoint(types)
        ]
        best = max(near, key=lambda one: (one[0] == line, len({*one[1]} & {*types})), default=None)
        return None if best is None else self._notes[best]

    def _shown(self, line: Line, members: Mapping[JobId, None] | None) -> set[JobId]:
        """Jobs of a line and a pool that the policy may start, stop or change."""
        found = {
            job.id
            for job in (*self._holding, *self._waiting)
            if self._line[job.id] == line
            and (members is None or job.id in members)
            and job.id not in self._aside
            and job.id not in self._fixed
            and (job.allocation is None or self._plan.has(job.id) is not None)
        }
        return found if self._policy.shares else found - self._grouped(found)

    def _grouped(self, names: set[JobId]) -> set[JobId]:
        """Those that share devices; a policy that does not share cannot go on with groups."""
        tenants, rows = self._snapshot.tenants, self._snapshot.jobs
        return {
            name
            for name in names
            if (held := rows[name].allocation) is not None
            and any(len(tenants.get(device, ())) > 1 for device in held.devices)
        }

    def _who_may_make_way(self, line: Line) -> list[JobId]:
        """Running jobs of a line that make way for higher ones, the first to be stopped first."""
        now, fixed = self._snapshot.now, self._fixed
        found = [
            job
            for job in self._holding
            if self._line[job.id] == line
            and (job.id not in fixed or lingers(job, now) or self._plan.may_pause(job))
            and self._plan.has(job.id) is not None
        ]
        # A paused job waits for all its devices: the fewer, the sooner it goes on.
        found.sort(key=lambda job: job.size if self._plan.may_pause(job) else 0)
        return [job.id for job in found]

    def lower(self, level: Level) -> list[JobId]:
        """All that make way for a level at any cost."""
        lines = [line for line in self._lines if line[:2] > level]
        return [name for line in lines for name in self._who_may_make_way(line)]

    def _free_in(self, pool: Pool) -> int:
        free = self._plan.room.free
        if pool.cluster is self._snapshot.cluster:
            return free.total
        return sum(free.count_on(name) for name in pool.nodes)

    def _waits(self, name: JobId) -> bool:
        return self._plan.has(name) is None

    def _withheld(self, mine: set[JobId]) -> list[Device]:
        """Reserved devices that none of these jobs may be lent."""
        waiting = [job for job in self._waiting if job.id in mine and self._waits(job.id)]
        reserved: set[Device] | None = None
        for job in waiting:
            own = self._plan.room.not_lent(job)
            reserved = set(own) if reserved is None else reserved.intersection(own)
            if not reserved:
                return []
        return sorted(reserved or ())

    def _start_in_parts(self, line: Line) -> None:
        """Start those next in line that are larger than a node on parts of as few nodes.

        Placements give such a job whole nodes. It overtakes no job that waits for those.
        """
        largest = self._snapshot.cluster.largest_node
        if not self._plan.room.free.total > largest:
            return
        for job in self._unserved(line):
            if job.id in self._aside or not self._plan.start_somewhere(job, above=largest):
                return

    def _start_elsewhere(self, line: Line) -> None:
        """Start jobs that their own pool had no room for on what is left in others."""
        for job in self._unserved(line):
            shown = job.id not in self._aside
            if shown and not self._plan.start_somewhere(job) and self._policy.in_order:
                return

    def _unserved(self, line: Line) -> Iterator[Job]:
        """Waiting jobs of a line that were given nothing."""
        return (j for j in self._waiting if self._line[j.id] == line and self._waits(j.id))

    def _ask_for_guests(self, line: Line) -> None:
        """Ask each pool about jobs that may use it too and that their own pool did not start."""
        for pool, members in self._pools:
            if members is None:
                continue
            aside = members.keys() | self._aside
            others = [job for job in self._unserved(line) if job.id not in aside]
            cluster = self._snapshot.cluster
            guests = {job.id for job in others if pool.is_open(job, cluster)}
            if guests:
                own = self._shown(line, members)
                self._ask_about(line, pool, guests | own)


def _basis(seen: Snapshot) -> object:
    """All that the policy's answer depends on but for time."""
    return (
        tuple(row[2] for row in seen.ranking.queue),
        tuple((job.id, job.action, job.phase, job.spec) for job in seen.holding()),
        tuple(seen.free),
        tuple(seen.jobs[row[2]].spec for row in seen.ranking.queue),
    )
