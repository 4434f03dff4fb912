"""An experiment: a workload simulated on a cluster with given settings, and its recorder."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from treadle.core.actions import Action
from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.events import Event, JobSubmitted, JobUpdated
from treadle.core.job import JobId, JobSpec
from treadle.core.plan import DATA_PARALLEL
from treadle.core.ports import PerformanceModel, Policy
from treadle.core.scheduler import Observer, Scheduler
from treadle.core.wording import devices, several
from treadle.models.stages import StageTimes
from treadle.policies.base.placement import placement
from treadle.policies.live.naming import wrapped
from treadle.policies.registry import policy, wrappers_in
from treadle.reports.bookkeeping import NO_JOBS, standing
from treadle.reports.metrics import Summary, summarise
from treadle.reports.recorder import Recorder
from treadle.sim.beliefs import (
    announced_as,
    base_model,
    belief_of,
    forecasting,
    forecasts,
    knowing_lengths,
    length_learner,
    plan_belief,
)
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults
from treadle.sim.interrupting_engines import GroupInterruptingEngine, InterruptingEngine
from treadle.sim.quota_check import check_quotas
from treadle.sim.run import Arithmetic, Simulation
from treadle.sim.settings import (
    Settings,
    elastic_sizes,
    look,
    restart_cost,
    retry_rule,
    sharing,
    slower_together,
)
from treadle.sim.spent import Spent, Stopwatch
from treadle.sim.straight import StraightRun, applies
from treadle.sim.warm_engine import WarmEngine
from treadle.traces.workload import Workload

if TYPE_CHECKING:
    from treadle.models.plans.belief import PlanBelief

# When the restart cost is charged: at changes of an allocation; also at the first start; the same
# with free growth; to every running job at every decision; or that with the whole group's cost.
_ENGINES: Mapping[str, type[SimulatedEngine]] = {
    "changes": SimulatedEngine,
    "starts": SimulatedEngine,
    "warm": WarmEngine,
    "decisions": InterruptingEngine,
    "groups": GroupInterruptingEngine,
}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A simulation that is ready to run, with its recorder and beliefs."""

    settings: Settings
    simulation: Simulation
    recorder: Recorder
    cluster: Cluster
    spent: Spent
    times: StageTimes
    plans: "PlanBelief | None"  # if the plan models are learned
    jobs: Sequence[JobSpec] = ()  # as they truly are
    straight: StraightRun | None = None  # the quick way to the end, where there is one

    def notes(self) -> list[str]:
        """What the run assumed and learned, as sentences."""
        notes: list[str] = []
        if self.times.drawn:
            notes.append(
                f"{len(self.times.drawn)} jobs have no stage times; they share devices like "
                f"models of the catalogue, drawn with seed {self.times.seed}"
            )
        if self.plans is not None:
            notes.append(
                "policies begin with plan models whose factors are off by "
                f"e^±{self.settings.belief_error:g}; {self.plans.learned}"
            )
        return notes

    def finish(self, ended: Callable[[int], None] | None = None) -> Summary:
        """Run to the end and summarise. `ended`: told of each moment how many jobs end."""
        simulation = self.simulation
        watched = simulation.begun or len(simulation.observers) > 1  # besides by the recorder
        if self.straight is not None and not watched:
            simulation.now = self.straight.run(ended)
        else:
            if ended is not None:
                simulation.observe(_telling(ended))
            simulation.run()
        return self.summary()

    def summary(self) -> Summary:
        """Close the record at this moment and summarise."""
        scheduler = self.simulation.scheduler
        self.recorder.close(self.simulation.now)
        return summarise(
            self.recorder,
            policy=self.settings.policy,
            devices=self.cluster.device_count,
            decisions=scheduler.decisions,
            decide_cpu_s=self.spent.decide_s,
            never_fit=scheduler.unfit,
        )


def prepare(
    workload: Workload,
    cluster: Cluster,
    settings: Settings,
    *,
    stopwatch: Stopwatch | None = None,
    observers: Sequence[Observer] = (),
    made: Policy | None = None,
) -> Experiment:
    """Build scheduler, engine and recorder; invalid settings raise here.

    stopwatch: how decisions are timed; by default about their CPU time.
    made: a policy that no name stands for; `settings.policy` is then only what it is called.
    """
    check_quotas(settings.policy, workload, live=settings.live)
    times = StageTimes(settings.seed)
    base = base_model(cluster, settings)
    model = sharing(settings.sharing, base, times, settings.effects)
    truth = slower_together(model, settings.sharing_error)
    plans = plan_belief(cluster, settings, times)
    belief, learns = belief_of(model, plans, settings)
    jobs = _jobs(workload, cluster, settings)
    announced = announced_as(settings)
    learner = length_learner(belief, settings)
    if learner is not None:
        belief, announced = knowing_lengths(belief, learner, settings), learner.announced
    elif settings.lengths not in {"auto", "known"}:
        lengths = forecasts(jobs, settings)
        belief, announced = forecasting(belief, lengths), lengths.announced
    places = placement(settings.placement)
    chosen = made or policy(policy_text(settings), places, belief)
    if settings.retry == "classified" and not settings.live:
        from treadle.policies.live.retrying import Retrying  # noqa: PLC0415  # as below

        chosen = Retrying(chosen, places)
    spent = Spent(chosen, settings.policy, stopwatch)
    kind = _ENGINES.get(settings.restart_charge)
    if kind is None:
        raise InvalidInputError(
            f"restart charge {settings.restart_charge!r} is not known; "
            f"expected one of {', '.join(_ENGINES)}"
        )
    simulated = kind(
        jobs,
        truth,
        cost=restart_cost(settings.restart_cost),
        first_start_free=settings.restart_charge == "changes",
        faults=Faults(settings.faults, cluster),
        announced=announced,
    )
    # One instance each, because a retry rule may have state.
    recorder = Recorder(_speedup(truth), retry=retry_rule(settings.retry))
    scheduler = Scheduler(spent, cluster, retry=retry_rule(settings.retry))
    watch = recording(recorder, None if announced is None else _by_id(jobs))
    engine: Arithmetic = simulated
    if learner is not None:
        from treadle.sim.hidden_lengths import LearningEngine  # noqa: PLC0415  # most runs need none

        engine = LearningEngine(simulated, learner)
    looks = look(settings.time)
    simulation = Simulation(scheduler, engine, look=looks, observers=(watch, *learns, *observers))
    straight = None
    if applies(chosen, simulated, jobs):
        straight = StraightRun(chosen, spent, scheduler, jobs, truth, recorder, looks)
    return Experiment(settings, simulation, recorder, cluster, spent, times, plans, jobs, straight)


def policy_text(settings: Settings) -> str:
    """The policy's whole name: with what is around it live."""
    return wrapped(settings.policy) if settings.live else settings.policy


def _by_id(jobs: Iterable[JobSpec]) -> dict[JobId, JobSpec]:
    return {job.id: job for job in jobs}


def _speedup(truth: PerformanceModel) -> Callable[[JobSpec, float], float]:
    """A job's speed over its speed on one device; cached by profile."""
    single: dict[int, tuple[JobSpec, float]] = {}  # the job keeps the profile's identity alive

    def speedup(spec: JobSpec, speed: float) -> float:
        known = single.get(id(spec.profile))
        if known is None:
            one = truth.alone(spec, 1)
            if not one:  # It cannot run on one device: use its smallest size, divided.
                one = truth.alone(spec, spec.sizes[0]) / spec.sizes[0] or 1.0
            known = single[id(spec.profile)] = (spec, one)
        return speed / known[1]

    return speedup


def recording(recorder: Recorder, jobs: Mapping[JobId, JobSpec] | None = None) -> Observer:
    """Feed a recorder from a loop; `jobs`: the true specs, if jobs are announced differently."""

    def observe(
        now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        if jobs is not None:
            events = [_as_it_is(event, jobs) for event in events]
        held_back = NO_JOBS
        # A snapshot at every step costs 1 % of a run; most policies hold no job back.
        asked = scheduler.policy.held_back
        if scheduler.ranking.queue and getattr(asked, "__func__", None) is not Policy.held_back:
            held_back = asked(scheduler.snapshot(now))
        record_step(recorder, now, events, actions, scheduler, held_back)

    return observe


def record_step(
    recorder: Recorder,
    now: float,
    events: Sequence[Event],
    actions: Sequence[Action],
    scheduler: Scheduler,
    held_back: Mapping[int, int],
) -> None:
    """Feed a recorder one step, with the scheduler as it is after it."""
    free, room, head, unfit = standing(scheduler)
    recorder.step(
        now,
        events,
        actions,
        free=free,
        room=room,
        head=head,
        held_back=held_back,
        unfit=unfit,
    )
    recorder.settle(scheduler.ended, now)


def _telling(ended: Callable[[int], None]) -> Observer:
    """Say how many jobs end."""

    def observe(
        now: float,  # noqa: ARG001
        events: Sequence[Event],  # noqa: ARG001
        actions: Sequence[Action],  # noqa: ARG001
        scheduler: Scheduler,
    ) -> None:
        if scheduler.ended:
            ended(len(scheduler.ended))

    return observe


def _as_it_is(event: Event, jobs: Mapping[JobId, JobSpec]) -> Event:
    if isinstance(event, JobSubmitted | JobUpdated):
        return type(event)(jobs[event.spec.id])
    return event


def fit_to(workload: Workload, cluster: Cluster, oversize: str) -> Workload:
    """Refuse, skip or cut jobs that are larger than the whole cluster."""
    total = cluster.device_count
    large = [job for job in workload.jobs if job.sizes[0] > total]
    if not large:
        return workload
    if oversize == "error":
        job = large[0]
        raise InvalidInputError(
            f"{workload.place(job.id)}: job {job.id} asks for {devices(job.asked)} and the "
            f"cluster has {total:,} (jobs like it: {len(large):,}); give a larger --cluster, "
            "or --oversize skip or cut"
        )
    names = {job.id for job in large}
    jobs: Iterable[JobSpec] = (job for job in workload.jobs if job.id not in names)
    if oversize == "cut":
        jobs = (_cut(job, total) if job.id in names else job for job in workload.jobs)
    done = {"skip": "left out", "cut": "cut down to it"}[oversize]
    count = several(len(large), "job was", "jobs were")
    note = f"{count} larger than the cluster's {devices(total)} and {done}"
    return replace(workload, jobs=tuple(jobs), notes=(*workload.notes, note))


def _cut(job: JobSpec, devices: int) -> JobSpec:
    plans = tuple(plan for plan in job.plans if plan.fits(devices)) or (DATA_PARALLEL,)
    profile = replace(job.profile, size=devices)
    return replace(job, sizes=(devices,), asked=devices, profile=profile, plans=plans)


def _jobs(workload: Workload, cluster: Cluster, settings: Settings) -> Sequence[JobSpec]:
    jobs: Sequence[JobSpec] = workload.jobs
    if settings.retries is not None:
        jobs = [replace(job, retries=settings.retries) for job in jobs]
    if "try-small" in wrappers_in(settings.policy):  # In a simulation every job can be tried.
        jobs = [replace(job, trial=True) for job in jobs]
    if settings.speeds == "plans":
        from treadle.models.plans.planned import offering, standard  # noqa: PLC0415  # most runs need none

        devices, node = cluster.device_count, cluster.largest_node
        jobs = [offering(job, standard(), devices, node) for job in jobs]
    serial = settings.elastic
    if serial is None:
        return jobs
    if settings.speeds == "plans":
        raise InvalidInputError("with speeds by plans, plans set the sizes of jobs: omit elastic")
    if not 0 <= serial <= 1:
        raise InvalidInputError(f"the serial share of elastic jobs is 0 to 1, not {serial:g}")
    return [
        replace(
            job,
            sizes=elastic_sizes(job.asked, cluster),
            profile=replace(job.profile, serial=serial),
        )
        for job in jobs
    ]
