"""One decision: sizes as if the cluster were larger, folded onto the real one.

Every plan is worth what its groups get done in a second. Plans are made for a few folds; of the
most valuable ones, jobs that got nothing take what is left or join a group, and the best is taken.
What runs now is one more plan. With many jobs most decisions only carry it on: they cost what has
changed, and move few jobs.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from treadle.core.job import Job, JobSpec
from treadle.policies.base import costs
from treadle.policies.weave.company import Company, Group, Kinds, Member
from treadle.policies.weave.curve import Curve
from treadle.policies.weave.improve import Search
from treadle.policies.weave.places import Wanted
from treadle.policies.weave.values import Values

FOLDS = (1.0, 1.5, 2.2, 4.0)
_STAY = 0.02  # so much better another fold must be before all is regrouped
_HOPE = 1.01  # what small changes make of a new plan, or it is not looked at
_COMPLETED = 2  # plans
_SEARCHED_MAX = 60  # jobs
_WAITING_MAX = 12
_JOINED_MAX = 64  # kinds of groups that a job may join are looked at


class Plan(NamedTuple):
    """Groups of jobs with their sizes, for one fold."""

    groups: Sequence[tuple[int, Group]]  # with their size
    marginal: float | None  # what the last device that sharing saved has cost; None: none was
    jobs: dict[int, Member]
    all_served: bool  # every job has the most that it can use

    @property
    def value(self) -> float:
        return sum([group.value for _, group in self.groups])

    @property
    def devices(self) -> int:
        return sum([size for size, _ in self.groups])

    @property
    def served(self) -> set[int]:
        """The jobs that get devices."""
        return {i for _, group in self.groups for i in group.members}


class Decision:
    """One decision about these jobs, in order."""

    def __init__(
        self,
        company: Company,
        jobs: Sequence[Job],
        worth: Sequence[float],
        left: Sequence[float],
        curves: Sequence[Curve],
        restart_s: float,
    ) -> None:
        """restart_s: what a restart takes, where it was not measured."""
        self.jobs = jobs
        self._company = company
        self._worth = worth
        self._left = left
        self._curves = curves
        self._restart_s = restart_s
        self._usable = [tuple(curve.rates) for curve in curves]
        self._held = [job.size for job in jobs]
        self._costs, self._resizes = (
            [self._cost(i, each) if held else 0.0 for i, held in enumerate(self._held)]
            for each in (costs.restart_s, costs.resize_s)
        )
        self._stops = [(i, self.stop_cost(i)) for i, held in enumerate(self._held) if held]
        self._members: dict[tuple[int, int], Member] = {}
        self._values = Values(company, self)  # of groups that were looked at

    def carried_on(self, supply: int) -> Plan:
        """What runs now goes on, and jobs without devices and free devices are seen to."""
        plan = self._complete(self._as_it_is(), supply)
        free = supply - plan.devices
        if free:
            search = Search(self._company, self, plan.groups, (), free, self._values)
            if search.grow():
                plan = plan._replace(groups=search.groups())
        return plan

    def best(self, supply: int, last: int) -> tuple[int, Plan]:
        """The fold that is worth most, and its plan; the last one is kept for a little less."""
        fold, plan, is_enough = self._anew(supply, last)
        if is_enough:
            return fold, plan
        if len(plan.jobs) > _SEARCHED_MAX:  # Small changes bring less and take long.
            as_it_is = self.carried_on(supply)
        else:
            as_it_is = self._improved(self._as_it_is(), supply, afresh=False)
            if self._net(plan) * _HOPE > self._net(as_it_is):
                plan = self._improved(plan, supply)
        if self._net(as_it_is) >= self._net(plan):
            return last, as_it_is._replace(marginal=plan.marginal)
        return fold, plan

    def _anew(self, supply: int, last: int) -> tuple[int, Plan, bool]:
        """The best fold and its plan, without regard to what runs; and whether every job has the
        most that it can use without company."""
        plans: dict[int, Plan] = {}
        for fold, times in enumerate(FOLDS if self._company.largest > 1 else FOLDS[:1]):
            plans[fold] = self._plan(times, supply)
            if plans[fold].all_served:
                break  # More devices would serve no job better.

        def value(fold: int) -> float:
            return self._net(plans[fold]) * (1.0 + _STAY * (fold == last))

        promising = sorted(plans, key=lambda fold: (-value(fold), fold))[:_COMPLETED]
        for fold in promising:
            plans[fold] = self._complete(plans[fold], supply)
        best = max(promising, key=lambda fold: (value(fold), -fold))
        return best, plans[best], plans[0].all_served

    def _as_it_is(self) -> Plan:
        """The groups that there are, of jobs that still run."""
        by_devices: dict[Hashable, list[int]] = {}
        for i, job in enumerate(self.jobs):
            if job.allocation is not None and job.size in self._curves[i].rates:
                by_devices.setdefault(job.allocation.devices, []).append(i)
        rows: list[tuple[int, Group]] = []
        jobs: dict[int, Member] = {}
        for members in by_devices.values():
            size = self.jobs[members[0]].size
            here = {i: self._member(i, size) for i in members}
            group = self._company.together(tuple(members), here)
            if group is not None:
                rows.append((size, group))
                jobs |= here
        return Plan(rows, None, jobs, all_served=False)

    def _improved(self, plan: Plan, supply: int, *, afresh: bool = True) -> Plan:
        """Better by small changes."""
        served, free = plan.served, supply - plan.devices
        waiting = [i for i in range(len(self.jobs)) if i not in served][:_WAITING_MAX]
        search = Search(self._company, self, plan.groups, waiting, free, self._values)
        return plan._replace(groups=search.groups()) if search.run(afresh=afresh) else plan

    def _net(self, plan: Plan) -> float:
        """What a plan is worth, less what it costs to stop jobs that run and get nothing in it."""
        served = plan.served
        return plan.value - sum([cost for i, cost in self._stops if i not in served])

    # -- what the search asks -------------------------------------------------------------------

    def sizes(self, job: int) -> Sequence[int]:
        return self._usable[job]

    def member(self, job: int, size: int) -> Member | None:
        return self._member(job, size) if size in self._curves[job].rates else None

    def stop_cost(self, job: int) -> float:
        rate = self._curves[job].rates.get(self._held[job], 0.0)
        return self._worth[job] * rate * self._costs[job]

    def wanted(self, plan: Plan) -> list[Wanted]:
        found: list[Wanted] = []
        for size, group in sorted(plan.groups, key=_by_value):
            offers = set(self._curves[group.members[0]].rates)
            for i in group.members[1:]:
                offers &= self._curves[i].rates.keys()
            smaller = sorted((one for one in offers if one <= size), reverse=True)
            members = [self.jobs[i] for i in group.members]
            found.append(Wanted(size, members, smaller, group.value, group.cost))
        return found

    # -- plans ----------------------------------------------------------------------------------

    def each_alone(self) -> Iterator[Wanted]:
        """Every job in order, alone at its least: groups without a place leave gaps."""
        for job, curve in zip(self.jobs, self._curves, strict=True):
            first = curve.steps[0].size
            sizes = [size for size in curve.rates if size <= first]
            yield Wanted(first, (job,), sizes[::-1])

    @cached_property
    def _steps(self) -> list[tuple[float, int, int]]:
        """Every step of every job, the most valuable for each device first. A job is not shrunk
        for a little, and does not grow for a little."""
        steps = []
        for i, (held, curve, worth) in enumerate(
            zip(self._held, self._curves, self._worth, strict=True)
        ):
            stops, resized = 1.0 + self._costs[i], 1.0 + self._resizes[i]
            for rung, step in enumerate(curve.steps):
                value, stays = worth * step.gain, resized if rung else stops
                if held:
                    value = value * stays if step.size <= held else value / stays
                steps.append((-value, i, rung))
        steps.sort()
        return steps

    def _sizes(self, devices: int) -> dict[int, int]:
        """The rung of each job that gets devices, if there were so many."""
        rungs: dict[int, int] = {}
        stuck: set[int] = set()
        curves = self._curves
        for _, i, rung in self._steps:
            if i in stuck:
                continue
            step = curves[i].steps[rung]
            if step.devices > devices:
                stuck.add(i)
                continue
            devices -= step.devices
            rungs[i] = rung
            if not devices:
                break
        return rungs

    def _plan(self, fold: float, supply: int) -> Plan:
        jobs: dict[int, Member] = {}
        buckets: dict[int, list[Group]] = {}
        excess = -supply
        rungs = self._sizes(int(fold * supply))
        all_served = len(rungs) == len(self.jobs) and all(
            rung == len(self._curves[i].steps) - 1 for i, rung in rungs.items()
        )
        for i, rung in rungs.items():
            size = self._curves[i].steps[rung].size
            jobs[i] = self._member(i, size)
            buckets.setdefault(size, []).append(self._alone(i, size))
            excess += size
        marginal = None
        if excess > 0:
            excess, marginal = self._company.fold(buckets, jobs, excess)
        rows = [(size, group) for size, groups in buckets.items() for group in groups]
        if excess > 0:
            rows = self._packed(rows, supply)
        return Plan(rows, marginal, jobs, all_served)

    def _complete(self, plan: Plan, supply: int) -> Plan:
        """Jobs that got nothing take what is left, in order, or join a group to which it pays."""
        served, left = plan.served, supply - plan.devices
        if len(served) == len(self.jobs):
            return plan
        rows, jobs = list(plan.groups), plan.jobs
        open_to = _Open(rows, self._company.largest)
        for i in range(len(self.jobs)):
            if i in served:
                continue
            if not left and not open_to.sizes:
                break
            size = self._curves[i].steps[0].size
            if size <= left:
                jobs[i] = self._member(i, size)
                open_to.add(size, self._alone(i, size))
                left -= size
            elif size in open_to.sizes:
                jobs[i] = self._member(i, size)
                open_to.join(size, self._alone(i, size), self._company, jobs)
        return plan._replace(groups=rows)

    def _packed(self, rows: Sequence[tuple[int, Group]], devices: int) -> list[tuple[int, Group]]:
        """What fits: the most valuable for each device first."""
        chosen = []
        for size, group in sorted(rows, key=_by_value):
            if size <= devices:
                devices -= size
                chosen.append((size, group))
        return chosen

    def power(self, plan: Plan) -> float:
        """What one more device would bring, over what a device brings on average."""
        rows, marginal = plan.groups, plan.marginal
        rate = sum(self._done(size, group) for size, group in rows)
        if marginal is None:
            steps = [(size, self._curves[group.members[0]].steps) for size, group in rows]
            left = [next((s.gain for s in own if s.size > size), 0.0) for size, own in steps]
            marginal = 1.0 if len(plan.served) < len(self.jobs) else max(left, default=0.0)
        return min(max(marginal * plan.devices / rate, 0.0), 1.0) if rate else 1.0

    def _done(self, size: int, group: Group) -> float:
        keeps = self._company.keeps(group.kinds, [self.jobs[i].spec for i in group.members])
        return sum(
            self._curves[i].rates[size] * keeps[self._company.kind(self.jobs[i].spec)]
            for i in group.members
        )

    def _cost(self, i: int, of: Callable[[JobSpec, float], float]) -> float:
        """What a change costs a job that runs, as a share of the work that it would do until it
        ends."""
        cost_s = of(self.jobs[i].spec, self._restart_s)
        return min(cost_s / max(self._left[i] / self._held[i], 1e-9), 1.0)

    def _member(self, i: int, size: int) -> Member:
        known = self._members.get((i, size))
        if known is None:
            job = self.jobs[i]
            held = job.allocation
            home = held.devices[0] if held is not None and len(held.devices) == size else None
            value = self._worth[i] * self._curves[i].rates[size]
            cost = value * self._costs[i] if home is not None else 0.0
            if home is None and held is not None:  # It would be resized.
                value -= value * self._resizes[i]
            known = Member(job.spec, self._company.kind(job.spec), value, home, cost)
            self._members[i, size] = known
        return known

    def _alone(self, i: int, size: int) -> Group:
        return self._company.alone(i, self._member(i, size))


def _by_value(row: tuple[int, Group]) -> tuple[float, tuple[int, ...]]:
    """The most valuable for each device first."""
    size, group = row
    return -group.value / size, group.members


class _Open:
    """Groups of a plan that may take one more member, by size and kinds."""

    def __init__(self, rows: list[tuple[int, Group]], largest: int) -> None:
        self._rows = rows
        self._largest = largest
        self.sizes: dict[int, dict[Kinds, list[int]]] = {}
        if largest > 1:
            for place, (size, group) in enumerate(rows):
                self._open(place, size, group)

    def add(self, size: int, group: Group) -> None:
        self._rows.append((size, group))
        self._open(len(self._rows) - 1, size, group)

    def join(self, size: int, one: Group, company: Company, jobs: Mapping[int, Member]) -> None:
        """Add a job to the group that gains most by it, if one gains at all."""
        best, most, by_kinds = None, 0.0, self.sizes[size]
        for places in islice(by_kinds.values(), _JOINED_MAX):
            group = self._rows[places[-1]][1]
            gain = company.gain(group, one, jobs)
            if gain > most:
                best, most = places, gain
        if best is None:
            return
        place = best.pop()
        both = company.joined(self._rows[place][1], one, jobs)
        assert both is not None, "they gain by it, so they may"
        if not best:
            del by_kinds[self._rows[place][1].kinds]
            if not by_kinds:
                del self.sizes[size]
        self._rows[place] = (size, both)
        self._open(place, size, both)

    def _open(self, place: int, size: int, group: Group) -> None:
        if len(group.members) < self._largest:
            self.sizes.setdefault(size, {}).setdefault(group.kinds, []).append(place)
