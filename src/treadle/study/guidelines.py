"""What each guideline of the Philly study would save: simulations with and without it.

Placement matters only if crossing nodes costs speed, and retries only if jobs fail. If the settings
have neither, both are taken from the study, also for the run without a guideline, so that the runs
differ by the guideline alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from treadle.core.cluster import Cluster
from treadle.core.errors import TreadleError
from treadle.core.job import JobSpec
from treadle.core.scheduler import Observer
from treadle.policies.registry import wrappers_in
from treadle.reports.metrics import percentile
from treadle.reports.run_history import JobHistory
from treadle.sim.experiment import Experiment, prepare
from treadle.sim.settings import Settings
from treadle.study.record import Record
from treadle.traces.workload import Workload

JOBS_MAX = 2000  # simulated a dozen times within about a minute
WITHOUT = "none of them"
BOTH = "both of them"
_RESTART_S = "60"
_RETRIES = 3
# name -> wrapper, with the parameters of `treadle replicate philly`
_PLACING = {
    "wait for locality": "locality?share=0.1",
    "dedicated servers": "dedicated?from=4",
    "defragmentation": "defrag?budget=60",
    "bounded overtaking": "overtaking",
}
_TRY_SMALL = "try-small?devices=4"


@dataclass(frozen=True, slots=True)
class Trial:
    """One simulation: a guideline or none, and its settings."""

    group: str  # "placing" or "failing"
    guideline: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Effect:
    """The result of one simulation."""

    group: str
    guideline: str
    policy: str
    jobs_finished: int
    completion_mean_s: float | None  # over finished jobs
    wait_mean_s: float | None  # over all jobs
    wait_large_p95_s: float | None  # of jobs of more than 8 devices
    place_wait_h: float  # waited while enough devices were free, in unusable places
    gpu_h: float  # held by all jobs
    failed_attempts: int
    failed_gpu_h: float  # held by attempts that failed
    refused: str = ""  # why the guideline cannot be applied


@dataclass(frozen=True, slots=True)
class Window:
    """The jobs to simulate."""

    workload: Workload
    chosen: int  # jobs submitted in it
    carried: int  # jobs submitted before it that still ran
    of_jobs: int  # jobs of the record

    @property
    def sentence(self) -> str:
        if self.chosen == self.of_jobs:
            return "Simulated with all jobs."
        return (
            f"Simulated with {self.chosen:,} of {self.of_jobs:,} jobs, the consecutive ones that "
            f"waited longest, and with what was left of the {self.carried:,} running at the start."
        )


@dataclass(frozen=True, slots=True)
class Guidelines:
    """All results; the first of each group is without a guideline."""

    jobs: int
    of_jobs: int
    effects: tuple[Effect, ...]
    assumptions: tuple[str, ...]

    def group(self, name: str) -> list[Effect]:
        return [effect for effect in self.effects if effect.group == name]


def window(record: Record, jobs_max: int) -> Window:
    """At most `jobs_max` consecutive jobs, those that waited longest, and the jobs then running.

    A job that was running keeps its remaining time, so that the cluster is not empty at the start.
    """
    jobs, histories = record.workload.jobs, record.recorder.histories
    if len(jobs) <= jobs_max:
        return Window(record.workload, len(jobs), 0, len(jobs))
    waited_s = [histories[job.id].waited_s if job.id in histories else 0.0 for job in jobs]
    first = _longest(waited_s, jobs_max)
    chosen = jobs[first : first + jobs_max]
    begin_at = chosen[0].submit_at
    earlier = (histories[job.id] for job in jobs[:first] if job.id in histories)
    carried = [rest for history in earlier if (rest := _rest(history, begin_at)) is not None]
    workload = replace(record.workload, jobs=(*carried, *chosen))
    return Window(workload, len(chosen), len(carried), len(jobs))


def trials(settings: Settings) -> list[Trial]:
    """Every simulation to run; a guideline that the policy already has is left out."""
    placed, failing = _placed(settings), _failing(settings)
    already = wrappers_in(settings.policy)
    found = [Trial("placing", WITHOUT, placed)]
    found += [
        Trial("placing", name, _wrapped(placed, wrapper))
        for name, wrapper in _PLACING.items()
        if wrapper.partition("?")[0] not in already
    ]
    found.append(Trial("failing", WITHOUT, failing))
    found.append(Trial("failing", "classified retry", replace(failing, retry="classified")))
    if "try-small" not in already:
        tried = _wrapped(failing, _TRY_SMALL)
        found.append(Trial("failing", "try small first", tried))
        found.append(Trial("failing", BOTH, replace(tried, retry="classified")))
    return found


def measured(
    chosen: Sequence[Trial],
    workload: Workload,
    cluster: Cluster,
    *,
    observers: Sequence[Observer] = (),
) -> Iterator[Effect]:
    """The effect of each trial, one after another."""
    for trial in chosen:
        try:
            experiment = prepare(workload, cluster, trial.settings, observers=observers)
            experiment.finish()
        except TreadleError as error:
            if trial.guideline == WITHOUT:
                raise
            policy = trial.settings.policy
            yield Effect(
                *(trial.group, trial.guideline, policy, 0, None, None, None, 0.0, 0.0, 0, 0.0),
                refused=str(error),
            )
        else:
            yield _effect(trial, experiment)


def assumptions(record: Record) -> tuple[str, ...]:
    """What the simulations assume beyond the record."""
    settings, cluster, found = record.settings, record.cluster, []
    if len(record.policies) > 1:
        found.append(f"Assumed: {settings.policy} all the time, the last policy of the run.")
    if not record.has_cluster:
        nodes, devices = len(cluster.nodes), cluster.device_count
        found.append(f"Assumed: {settings.policy}, on {nodes:,} nodes with {devices:,} devices.")
    if settings.effects == "none":
        found.append("Assumed: jobs that cross nodes or racks run slower, as in the Philly study.")
    if settings.restart_cost == "none":
        found.append(f"Assumed: a job that is stopped or moved loses {_RESTART_S} s.")
    if not settings.faults.job_failures:
        found.append(
            "Assumed, for the guidelines about failures: jobs fail as in the Philly study and are "
            f"retried up to {_RETRIES} times."
        )
    return tuple(found)


def _placed(settings: Settings) -> Settings:
    return replace(
        settings,
        effects="philly" if settings.effects == "none" else settings.effects,
        restart_cost=_RESTART_S if settings.restart_cost == "none" else settings.restart_cost,
    )


def _failing(settings: Settings) -> Settings:
    """With failures, and retries whatever failed."""
    placed = replace(_placed(settings), retry="fixed")
    if settings.faults.job_failures:
        return placed
    return replace(placed, retries=_RETRIES, faults=replace(settings.faults, job_failures=1.0))


def _wrapped(settings: Settings, wrapper: str) -> Settings:
    return replace(settings, policy=f"{settings.policy}+{wrapper}")


def _longest(waited_s: Sequence[float], count: int) -> int:
    """The first index of the `count` consecutive numbers with the largest sum."""
    best = total = sum(waited_s[:count])
    first = 0
    for begin in range(1, len(waited_s) - count + 1):
        total += waited_s[begin + count - 1] - waited_s[begin - 1]
        if total > best + 1e-6:  # rounding alone moves nothing
            best, first = total, begin
    return first


def _rest(history: JobHistory, begin_at: float) -> JobSpec | None:
    """The remaining part of a job that was running at that moment."""
    started_at, ended_at = history.first_start_at, history.ended_at
    if started_at is None or started_at >= begin_at or ended_at is None or ended_at <= begin_at:
        return None
    each_s = history.spec.profile.iteration_s
    left = min((ended_at - begin_at) / each_s, history.spec.iterations)
    return replace(history.spec, iterations=left, submit_at=begin_at)


def _effect(trial: Trial, experiment: Experiment) -> Effect:
    recorder = experiment.recorder
    histories = recorder.histories.values()
    finished = [
        history.ended_at - history.submitted_at
        for history in histories
        if history.status == "finished" and history.ended_at is not None
    ]
    large = sorted(history.waited_s for history in histories if history.spec.asked > 8)
    return Effect(
        trial.group,
        trial.guideline,
        trial.settings.policy,
        jobs_finished=len(finished),
        completion_mean_s=sum(finished) / len(finished) if finished else None,
        wait_mean_s=sum(history.waited_s for history in histories) / len(histories),
        wait_large_p95_s=percentile(large, 95),
        place_wait_h=recorder.waited_s("fragmentation") / 3600.0,
        gpu_h=sum(history.service_s for history in histories) / 3600.0,
        failed_attempts=len(recorder.failures),
        failed_gpu_h=sum(failure.device_s for failure in recorder.failures) / 3600.0,
    )
