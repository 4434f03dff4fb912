"""Why a job has its size, company and place, and what the next best would have been.

Alternatives are not estimated: the decision is made again with the job at another size, or alone,
and what all jobs would then get done is compared with what they get done now.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from treadle.core.cluster import Device
from treadle.core.job import Job, JobId, JobSpec
from treadle.core.snapshot import Snapshot
from treadle.core.wording import devices, listed, named_jobs, several, span
from treadle.policies.weave.company import Group
from treadle.policies.weave.curve import Curve, Curves, Step
from treadle.policies.weave.decision import Decision, Plan

_NAMED_MAX = 3
_COMPANY_MAX = 200  # jobs that are looked at for other company
JOBS_MAX = 2000  # beyond so many, making the decision again takes too long
_ROUNDING = 1e-9
_LITTLE = 0.005  # a change of less reads as none
_TIMES = 1.995  # a share of so much or more is said in times


class Instead(Curves):
    """Curves with another one for a single job."""

    def __init__(self, inner: Curves, job: JobId, curve: Curve) -> None:
        self._inner = inner
        self._job = job
        self._curve = curve

    def of(self, spec: JobSpec, most: int = 0) -> Curve:
        return self._curve if spec.id == self._job else self._inner.of(spec, most)


# Decides again with this spec and curve for the job, which must have the first of its sizes.
Again = Callable[[JobSpec, Curve], tuple[Decision, Plan]]


class Unseen(NamedTuple):
    """Jobs that are not this decision's to change: of other priorities, or left as they are."""

    holders: tuple[Job, ...] = ()
    ranks_apart: bool = False  # some have another priority than the job that is asked about


def unseen(snapshot: Snapshot, job: Job) -> Unseen:
    """What a wrapper hides from the decision about a job."""
    seen = {one.id for one in (*snapshot.holding(), *snapshot.waiting())}
    hidden = [one for one in snapshot.jobs.values() if one.id not in seen]
    return Unseen(
        tuple(one for one in hidden if one.allocation is not None),
        any(one.spec.priority != job.spec.priority for one in hidden),
    )


class Asked(NamedTuple):
    """A job that holds devices, and the decision as it would be made now."""

    job: Job
    snapshot: Snapshot
    decision: Decision
    plan: Plan
    again: Again
    restart_s: float
    unseen: Unseen

    @property
    def held_unseen(self) -> dict[Device, Job]:
        """Devices of jobs that the decision does not see."""
        nodes = {node.name for node in self.snapshot.cluster.nodes}
        return {
            device: one
            for one in self.unseen.holders
            if one.allocation is not None
            for device in one.allocation.devices
            if device.node in nodes
        }

    @property
    def peers(self) -> str:
        """Which jobs the decision is about, behind the word job."""
        return " of its priority" if self.unseen.ranks_apart else ""


class _Effect(NamedTuple):
    """What an alternative would change, as shares of what the job gets done now.

    Shares of all others' work would be nothing in a large cluster.
    """

    value: float  # of the plan
    counts_more: bool  # were it not for the restarts
    own: float
    others: float | None  # None: there are none
    stops: bool = False  # all others


def why_so(asked: Asked) -> str:
    """Of a job that runs: its size, its company and its place, each beside the next best."""
    found = asked.decision.group_of(asked.plan, asked.job.id)
    if found is None:
        return f"{_otherwise(asked.job)}no devices: other jobs make more of them"
    position, size, group = found
    others = {asked.decision.name(i) for i in group.members if i != position}
    stays = size == asked.job.size and others == set(_sharers(asked))
    clauses = (
        ("" if stays else _otherwise(asked.job)) + _size(asked, position, size),
        _company(asked, position, size, group),
        _place(asked, size) if stays else "",
    )
    return "; ".join(clause for clause in clauses if clause)


def _otherwise(job: Job) -> str:
    """How to begin if it would have something else; wrappers leave some jobs as they are."""
    keeps = "" if job.spec.resumable else "it keeps what it started with, as it cannot resume; "
    return f"{keeps}if all jobs could be changed now, it would have "


# -- size -----------------------------------------------------------------------------------------


def _size(asked: Asked, position: int, size: int) -> str:
    decision, job = asked.decision, asked.job
    if job.id in decision.promised:
        owed = decision.promised[job.id]
        part = "" if owed == size else f"{owed} of them "
        return f"{devices(size)}, {part}guaranteed by its tenant's quota"
    if decision.goes_first(position):
        waited = span(job.waited_at(asked.snapshot.now))
        return f"{devices(size)}, and it goes first because it has waited for {waited} in all"
    curve, supply = decision.curve(position), asked.snapshot.supply
    near = (
        max((one for one in curve.rates if one < size), default=0),
        min((one for one in curve.rates if size < one <= supply), default=0),
    )
    if not any(near):
        return f"{devices(size)}, {_most(asked, size)}"
    if decision.count > JOBS_MAX:
        return devices(size)
    effects = [(one, _effect(asked, job.spec, curve, one)) for one in near if one]
    known = [(effect.value, one, effect) for one, effect in effects if effect is not None]
    if not known:
        return f"{devices(size)}, the only size of it for which there is room"
    _, other, effect = max(known, key=lambda row: row[0])
    return (
        f"{devices(size)} rather than {other}, with which it is expected to get {_changes(effect)}"
        f"{_weighed(effect, asked.plan.value)}"
    )


def _most(asked: Asked, size: int) -> str:
    """Why no other size is an alternative."""
    sizes, supply = asked.job.spec.sizes, asked.snapshot.supply
    if len(sizes) == 1:
        return "its only size"
    if size == sizes[-1]:
        return "the most that it can use"
    if any(size < one <= supply for one in sizes):
        return "more would not make it faster"
    return f"all that {_leaving(asked)}" if size == supply else "the most for which there is room"


def _leaving(asked: Asked) -> str:
    """Who has the devices that the decision does not dispose of."""
    own = asked.job.spec.priority
    ranks = {one.spec.priority for one in asked.held_unseen.values()}
    if not ranks or asked.snapshot.supply >= asked.snapshot.cluster.device_count:
        return "there are"
    if min(ranks) > own:
        return "jobs of higher priority leave"
    return "other jobs leave" if own in ranks else "jobs of other priorities leave"


def _weighed(effect: _Effect, chosen: float) -> str:
    """Why an alternative with which more would get done was not chosen."""
    if effect.value > chosen * (1.0 + _ROUNDING):
        if not effect.counts_more:
            return (
                " (with fewer restarts, but the search missed it, which takes one step at a time)"
            )
        less = effect.own + (effect.others or 0.0) < 0
        more = "less in all, but more of jobs that count for more" if less else "more in all"
        return (
            f" ({more}; not enough for the restarts, or the search missed it, which takes one step "
            "at a time)"
        )
    if effect.own + (effect.others or 0.0) < _LITTLE:
        return ""
    if effect.counts_more:
        return " (more in all, but not enough for the restarts)"
    return " (more in all, but of jobs that come later in the order and count for less)"


def _effect(asked: Asked, spec: JobSpec, curve: Curve, size: int) -> _Effect | None:
    """What all jobs get done if this one has just that size; None: it finds no room."""
    rate = curve.rates[size]
    only = Curve((Step(size, size, rate / size),), {size: rate}, curve.unit)
    decision, plan = asked.again(spec, only)
    before, after = dict(_done(asked.decision, asked.plan)), dict(_done(decision, plan))
    own, then = before.pop(spec.id), after.pop(spec.id, 0.0)
    if not then:
        return None
    now, others = sum(before.values()), sum(after.values())
    more = _counted(decision, plan) > _counted(asked.decision, asked.plan)
    if not now and not others:
        return _Effect(plan.value, more, then / own - 1.0, None)
    return _Effect(plan.value, more, then / own - 1.0, (others - now) / own, not others)


def _done(decision: Decision, plan: Plan) -> Iterator[tuple[JobId, float]]:
    """What each job that is served gets done in a second."""
    return ((decision.name(i), done) for i, done in _rates(decision, plan))


def _counted(decision: Decision, plan: Plan) -> float:
    """What all jobs get done in a second, by what their work counts, without restarts."""
    return sum(decision.worth(i) * done for i, done in _rates(decision, plan))


def _rates(decision: Decision, plan: Plan) -> Iterator[tuple[int, float]]:
    for size, group in plan.groups:
        for i, keeps in zip(group.members, decision.keeps(group), strict=True):
            yield i, decision.curve(i).rates[size] * keeps


def _changes(effect: _Effect) -> str:
    own = "as much"
    if abs(effect.own) >= _LITTLE:
        own = f"{_percent(abs(effect.own))} {'more' if effect.own > 0 else 'less'}"
    return f"{own} done{_others(effect)}"


def _others(effect: _Effect) -> str:
    if effect.others is None:
        return ""
    if effect.stops:
        return ", while the others would get nothing done"
    if abs(effect.others) < _LITTLE:
        return " and the others as much as now"
    verb, part = "gain" if effect.others > 0 else "lose", abs(effect.others)
    much = f"{_percent(part)} of" if part < _TIMES else f"{part:.1f} times"
    return f", while the others together would {verb} {much} what it gets done now"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.01 else f"{100 * part:.1f} %"


# -- company --------------------------------------------------------------------------------------


def _company(asked: Asked, position: int, size: int, group: Group) -> str:
    decision, job = asked.decision, asked.job
    best = max(_offers(asked, position, size, group), default=None)
    if len(group.members) == 1:
        return f"alone{_alone(asked, size, best)}"
    others = [decision.name(i) for i in group.members if i != position]
    keeps = decision.keeps(group)
    mine, total = keeps[group.members.index(position)], sum(keeps)
    text = (
        f"beside {named_jobs(others, _NAMED_MAX)} (it counts as keeping {_percent(mine)} of its "
        f"speed; {_times(total)})"
    )
    if best is not None and round(best[0], 2) == round(total, 2):
        return f"{text}; beside job {best[1]} would be as good"
    if best is not None and best[0] < total:
        return f"{text} rather than beside job {best[1]} ({best[0]:.2f} times)"
    if decision.count > JOBS_MAX:
        return text
    effect = _effect(asked, replace(job.spec, exclusive=True), decision.curve(position), size)
    if effect is None:
        return text
    return (
        f"{text} rather than alone, where it is expected to get {_changes(effect)}"
        f"{_weighed(effect, asked.plan.value)}"
    )


def _alone(asked: Asked, size: int, best: tuple[float, JobId] | None) -> str:
    """Why a job has no company; best: what it could have."""
    job, plan = asked.job, asked.plan
    if job.id in asked.decision.promised:
        return ", as the quota promises"
    if job.spec.exclusive:
        return ", as it shares with no job"
    if plan.is_full and all(len(one.members) == 1 for _, one in plan.groups):
        return f", as no job{asked.peers} has to share"
    if best is None:
        shared = "a device" if size == 1 else devices(size)
        return f", as no other job{asked.peers} may share {shared} with it"
    return f" rather than beside job {best[1]} ({_times(best[0])})"


def _times(total: float) -> str:
    return f"together {total:.2f} times as much done as by one alone"


def _sharers(asked: Asked) -> Iterable[JobId]:
    held: tuple[Device, ...] = asked.job.allocation.devices if asked.job.allocation else ()
    tenants = [asked.snapshot.tenants.get(device, {}).values() for device in held]
    return [name for row in tenants for name in row if name != asked.job.id]


def _offers(asked: Asked, position: int, size: int, group: Group) -> Iterator[tuple[float, JobId]]:
    """Jobs that could share as many devices, with what the two would get done together."""
    others = asked.decision.of_size(asked.plan, size)
    for i in islice((i for i in others if i not in group.members), _COMPANY_MAX):
        total = asked.decision.together((position, i))
        if total:
            yield total, asked.decision.name(i)


# -- place ----------------------------------------------------------------------------------------


def _place(asked: Asked, size: int) -> str:
    """Where it is, beside where else it could be now."""
    held = asked.job.allocation
    if held is None or size != len(held.devices) or len(asked.snapshot.cluster.nodes) < 2:
        return ""
    mine, taken = held.nodes(), asked.held_unseen
    free = Counter(device.node for device in asked.snapshot.free if device not in taken)
    where = f"on {'node' if len(mine) == 1 else 'nodes'} {listed(list(mine), _NAMED_MAX)}"
    if fixed := _fixed(asked.job):
        return f"{where}, {fixed}"
    if size > asked.snapshot.cluster.largest_node:
        return f"{where}, as no node in use has {several(size, 'device')}"
    others = [n.name for n in asked.snapshot.cluster.nodes if n.name not in mine]
    room = [name for name in others if free[name] >= size]
    if not room:
        return f"{where}, as no other node has {several(size, 'device')} free"
    return (
        f"{where}, because it is there: node {room[0]} has room for it as well, and a move "
        f"would cost it about {span(asked.restart_s)}"
    )


def _fixed(job: Job) -> str:
    """Why it cannot be moved; empty if it can."""
    if job.only_on:
        return f"which {'has' if len(job.only_on) == 1 else 'have'} its files"
    return "" if job.spec.resumable else "where it stays, as it cannot resume"
