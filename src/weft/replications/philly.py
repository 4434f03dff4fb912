"""Philly (Jeon et al., ATC'19): why jobs wait, how servers fill up, what failures cost.

The study's log is not released with placements and reasons, so everything here runs on generated
workloads like it. The first part is the scheduler of the study on its list of machines. The others
take one guideline of the study at a time, with and without, on a sixteenth of the cluster: there a
job that crosses nodes or racks runs slower as in the study, and a job that is moved pays for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.core.actions import Action
from weft.core.cluster import Cluster
from weft.core.events import Event, JobFailed, JobSubmitted
from weft.core.job import JobId
from weft.core.scheduler import Scheduler
from weft.replications.paper import Find, Paper, hours, ready
from weft.replications.rows import Row
from weft.reports.metrics import Summary, percentile, size_bucket
from weft.reports.recorder import Recorder
from weft.sim.faults import CLASSES, FaultSettings
from weft.sim.settings import Settings
from weft.traces.clusters import cluster as parse_cluster
from weft.traces.load import load
from weft.traces.workload import Workload

# Places are tried for again after three minutes, and half of all waits are that long: it took one
# failed try to settle for less.
PHILLY = Settings(policy="philly?quotas=philly&r1=1&r2=3")
GUIDELINES = Settings(policy="backfill", effects="philly", restart_cost="60")
FAILURES = replace(GUIDELINES, retries=3, faults=FaultSettings(job_failures=1.0))

# A week is the longest job, as the runs are of days. Waits come in bursts, so several weeks of them
# are put together; about half of the devices are in use, as in the log.
_STUDY = "generate:philly?jobs=10000&load=0.9&longest=604800&seed={}"
_SEEDS = range(4)
_MINI = "philly-mini"
_GUIDED = "generate:philly?jobs=3000&load=0.9&longest=604800"
_FAILING = "generate:philly?jobs=6000&load=0.8&longest=604800"

# Shares of the waits of multi-device jobs that fair share caused, in percent (table 2).
_FAIR_SHARE = {"2-4": 40.6, "5-8": 25.8, ">8": 2.1}
_WAIT_MIN = 3.0  # the median wait of those that wait, minutes
_EMPTY = 4.5  # at most so many of 100 servers are empty at two thirds of the load
# Of 100 failed trials: with a deterministic reason; within five minutes, of all and of those of
# several devices. From table 7, by interpolation between its quantiles.
_DETERMINISTIC, _WITHIN_5, _WITHIN_5_MULTI = 82.0, 47.0, 53.0

_WORN = {
    "alone": "",
    "wait for locality": "+locality?share=0.1",
    "dedicated servers": "+dedicated?from=4",
    "defragmentation": "+defrag?budget=60",
    "bounded overtaking": "+overtaking",
}
_RETRIES = {
    "three retries": FAILURES,
    "classified": replace(FAILURES, retry="classified"),
    "three retries, try small": replace(FAILURES, policy="backfill+try-small?devices=4"),
    "classified, try small": replace(
        FAILURES, policy="backfill+try-small?devices=4", retry="classified"
    ),
}


def settings(name: str, options: Mapping[str, str]) -> Settings:  # noqa: ARG001  # it has none
    """The study's quotas for its scheduler, its slow-downs for any other."""
    if name == "philly":
        return PHILLY
    return replace(GUIDELINES, policy=name)


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:  # noqa: ARG001
    """Every figure under its heading; the workloads are generated and not looked for."""
    yield from _scheduler([load(_STUDY.format(s), cluster=cluster) for s in _SEEDS], cluster)
    mini = parse_cluster(_MINI)
    yield from _guidelines(load(_GUIDED, cluster=mini), mini)
    yield from _failures(load(_FAILING, cluster=mini), mini)


def _scheduler(workloads: Sequence[Workload], cluster: Cluster) -> Iterator[tuple[str, Row]]:
    waits, empty, recorders = Waits(), Empty(), []
    for workload in workloads:
        waits.begin()
        empty.begin()
        recorders.append(_watched(workload, cluster, PHILLY, waits, empty)[0])
    heading = "philly: waits that fair share caused, % of the waits of a size"
    for bucket, published in _FAIR_SHARE.items():
        what = f"{bucket} devices, {waits.count(bucket)} waits"
        yield heading, Row(what, waits.fair_share(bucket), published)
    heading = "philly: waiting"
    stories = [story for recorder in recorders for story in recorder.stories.values()]
    waited_s = sorted(story.waited_s for story in stories if story.waited_s)
    middle_s = percentile(waited_s, 50) or 0.0
    yield heading, Row("median of those that wait, minutes", middle_s / 60, _WAIT_MIN)
    placeless_s = sorted(waits.placeless_s(recorders))
    middle_s = percentile(placeless_s, 50) or 0.0
    yield heading, Row("the same, for want of a place", middle_s / 60, _WAIT_MIN)
    share = 100 * len(waited_s) / len(stories)
    yield heading, Row("jobs that wait at all, %", share, None)
    by_cause = [item for recorder in recorders for item in recorder.wait_s.items()]
    placeless = sum(s for (cause, _), s in by_cause if cause != "fair share")
    share = 100 * placeless / (sum(waited_s) or 1.0)
    yield heading, Row("of all waiting, for want of a place, %", share, 80.0)
    yield "philly: empty servers at two thirds load, %", Row("philly", empty.share, _EMPTY)


def _guidelines(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """Each guideline beside none: what fragmentation costs, and what the guideline does."""
    measured: dict[str, tuple[Recorder, Summary, float]] = {}
    for name, worn in _WORN.items():
        empty = Empty()
        chosen = replace(GUIDELINES, policy=GUIDELINES.policy + worn)
        measured[name] = (*_watched(workload, cluster, chosen, empty), empty.share)
    for name, (recorder, _, _) in measured.items():
        hours_each = _fragmentation_h(recorder) / len(workload.jobs)
        yield "guidelines: wait for want of a place, hours a job", Row(name, hours_each, None)
    for name, (recorder, _, _) in measured.items():
        waits_h = sorted(s.waited_s / 3600 for s in recorder.stories.values() if s.spec.asked > 8)
        longest = percentile(waits_h, 95) or 0.0
        yield "guidelines: wait of jobs above 8 devices, p95 hours", Row(name, longest, None)
    for name, (_, summary, _) in measured.items():
        yield "guidelines: average completion time, hours", Row(name, hours(summary), None)
    for name, (_, _, share) in measured.items():
        yield "guidelines: empty servers at two thirds load, %", Row(name, share, _EMPTY)


def _failures(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """What failures waste under each rule: device-hours of attempts that ended in one."""
    wasted: dict[str, Wasted] = {}
    for name, chosen in _RETRIES.items():
        experiment = ready(workload, cluster, chosen)
        wasted[name] = Wasted(experiment.recorder)
        experiment.simulation.observe(wasted[name])
        experiment.finish()
    base = wasted["three retries"]
    heading = "failures: failed trials, %"
    yield heading, Row("with a deterministic reason", base.deterministic(), _DETERMINISTIC)
    yield heading, Row("within 5 minutes", base.early(1), _WITHIN_5)
    yield heading, Row("within 5 minutes, several devices", base.early(2), _WITHIN_5_MULTI)
    for name, one in wasted.items():
        yield "failures: failed trials, number", Row(name, len(one.trials), None)
    for name, one in wasted.items():
        yield "failures: device-hours of trials that failed", Row(name, one.device_h, None)
    heading = "failures: trials of several devices that failed on all of them, % fewer"
    for name, one in wasted.items():
        fewer = 100 * (1 - one.on_all / max(base.on_all, 1))
        # A trial of five minutes catches no more than fails in five minutes.
        bounded = name == "three retries, try small"
        bound = base.early(2) if bounded else None
        yield heading, Row(name, fewer, bound, at_most=bounded)


Watcher = Callable[[float, Sequence[Event], Sequence[Action], Scheduler], None]


def _watched(
    workload: Workload, cluster: Cluster, chosen: Settings, *watchers: Watcher
) -> tuple[Recorder, Summary]:
    experiment = ready(workload, cluster, chosen)
    for watcher in watchers:
        experiment.simulation.observe(watcher)
    summary = experiment.finish()
    return experiment.recorder, summary


def _fragmentation_h(recorder: Recorder) -> float:
    waits = recorder.wait_s.items()
    return sum(s for (cause, _), s in waits if cause == "fragmentation") / 3600


class Waits:
    """Counts waits by what caused them at first, as the study's table does."""

    def __init__(self) -> None:
        self._causes: Counter[tuple[str, bool]] = Counter()  # (size bucket, fair share) -> waits
        self._placeless: list[set[JobId]] = []  # of each run, jobs that waited for a place first

    def begin(self) -> None:
        """Another run follows."""
        self._placeless.append(set())

    def __call__(
        self,
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,
    ) -> None:
        for event in events:
            if isinstance(event, JobSubmitted | JobFailed):
                identity = event.spec.id if isinstance(event, JobSubmitted) else event.job
                job = scheduler.jobs.get(identity)
                if job is not None and job.allocation is None:
                    fair_share = scheduler.why(identity, now).cause == "fair share"
                    self._causes[size_bucket(job.spec.asked), fair_share] += 1
                    if not fair_share:
                        self._placeless[-1].add(identity)

    def count(self, bucket: str) -> int:
        return self._causes[bucket, True] + self._causes[bucket, False]

    def fair_share(self, bucket: str) -> float:
        """Of 100 waits of a size, those for a tenant's share."""
        return 100 * self._causes[bucket, True] / max(self.count(bucket), 1)

    def placeless_s(self, recorders: Sequence[Recorder]) -> Iterator[float]:
        """Seconds waited by those that fair share did not stop, in these runs."""
        for recorder, names in zip(recorders, self._placeless, strict=True):
            yield from (recorder.stories[name].waited_s for name in names)


class Empty:
    """The share of servers without a job while about two thirds of the devices are in use."""

    EVERY_S = 600.0

    def __init__(self) -> None:
        self._next_at = 0.0
        self._shares: list[float] = []

    def begin(self) -> None:
        """Another run follows."""
        self._next_at = 0.0

    def __call__(
        self,
        now: float,
        events: Sequence[Event],  # noqa: ARG002
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,
    ) -> None:
        if now < self._next_at:
            return
        self._next_at = now + self.EVERY_S
        free, nodes = scheduler.tenancy.free, scheduler.cluster.nodes
        used = 1 - free.total / scheduler.cluster.device_count
        if 0.62 <= used <= 0.71:
            empty = sum(free.count_on(node.name) == node.device_count for node in nodes)
            self._shares.append(100 * empty / len(nodes))

    @property
    def share(self) -> float:
        """Of 100 servers; 0 if the load was never near."""
        return sum(self._shares) / max(len(self._shares), 1)


class Wasted:
    """Adds up what trials held that ended in a failure."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before_s: dict[JobId, float] = {}  # device-seconds up to the last failure
        self.trials: list[tuple[int, float, str]] = []  # size asked, device-seconds, reason
        self.on_all = 0  # trials of several devices that failed while they held all of them

    def __call__(
        self,
        now: float,
        events: Sequence[Event],
        actions: Sequence[Action],  # noqa: ARG002
        scheduler: Scheduler,  # noqa: ARG002
    ) -> None:
        for event in events:
            if isinstance(event, JobFailed):
                story = self._recorder.stories[event.job]
                spent_s = story.service_s - self._before_s.get(event.job, 0.0)
                self._before_s[event.job] = story.service_s
                self.trials.append((story.spec.asked, spent_s, event.reason))
                self.on_all += 1 < story.spec.asked <= self._held(event.job, now)

    def _held(self, job: JobId, now: float) -> int:
        """How many devices it held up to now."""
        for hold in reversed(self._recorder.holds):
            if hold.to_at < now:
                break
            if hold.job == job:
                return hold.allocation.size
        return 0

    @property
    def device_h(self) -> float:
        return sum(spent_s for _, spent_s, _ in self.trials) / 3600

    def deterministic(self) -> float:
        """Of 100 trials, those that would fail the same way again."""
        again = sum(CLASSES[reason] in {"deterministic", "resource"} for *_, reason in self.trials)
        return 100 * again / max(len(self.trials), 1)

    def early(self, least: int) -> float:
        """Of 100 trials of jobs of at least so many devices, those that failed in 5 minutes."""
        ran_s = [spent_s / size for size, spent_s, _ in self.trials if size >= least]
        return 100 * sum(s <= 300.0 for s in ran_s) / max(len(ran_s), 1)


PAPER = Paper(
    cluster="philly",
    policies=("philly", "backfill", "fifo"),
    figures=figures,
    count=len(_FAIR_SHARE) + 5 + 4 * len(_WORN) + 3 + 3 * len(_RETRIES),
    settings=settings,
)
