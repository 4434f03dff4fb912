"""Philly (Jeon et al., ATC'19): why jobs wait, how servers fill up, what failures cost.

The study's log was released without placements and reasons, so everything here runs on generated
workloads like it. The first part is the study's scheduler on the machines in its utilisation log.
With two thirds of its devices in use, hardly any server of the study was empty, so its small jobs
cannot have been packed well: here every job goes to the server with the smallest share in use.
Quotas are not published. Single-device jobs of the log waited for long while devices were idle, so
quotas here are limits and nothing is lent. A tenant's quota is its demand in the generated
workload, times the devices that another simulator gives it for each device it asked for in the log,
times one factor for all, which was chosen for the outcome.

The other parts compare one guideline at a time with none, on a sixteenth of the cluster. There a
job that crosses nodes or racks runs slower as in the study, and a moved job pays a restart cost.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from treadle.core.cluster import Cluster
from treadle.core.scheduler import Observer
from treadle.policies.simple.philly import PHILLY_NODES
from treadle.replications.paper import Find, Paper, hours
from treadle.replications.philly_counts import Empty, Trials, Waits
from treadle.replications.rows import Row
from treadle.reports.metrics import Summary, percentile
from treadle.reports.recorder import Recorder
from treadle.sim.experiment import prepare
from treadle.sim.faults import FaultSettings
from treadle.sim.settings import Settings
from treadle.traces.calibration import GPU_HOURS
from treadle.traces.clusters import cluster as parse_cluster
from treadle.traces.load import load
from treadle.traces.workload import Workload

_LOAD = 0.8  # offered; 69 % of the devices are then in use on average
# Devices that the tenants of the released log asked for on average in its last 45 days.
ASKED = {
    "6214e9": 306, "7f04ca": 224, "11cb48": 20, "ee9e8c": 247, "e13805": 49, "6c71a0": 117,
    "2869ce": 57, "b436b2": 280, "ed69ec": 19, "103959": 20, "0e4a51": 77,
}  # fmt: skip
_NODE = 8  # devices of a node of `PHILLY_NODES`
_TIGHT = 0.775
_LEAST = 1.1  # times its demand; with less, a tenant's queue would grow without limit


def _quotas() -> dict[str, float]:
    """The most that a tenant may hold, in clusters."""
    each = _LOAD / sum(GPU_HOURS.values())
    times = {t: _TIGHT * PHILLY_NODES[t] * _NODE / asked for t, asked in ASKED.items()}
    return {t: each * GPU_HOURS[t] * max(most, _LEAST) for t, most in times.items()}


def _limits() -> str:
    quotas = _quotas()
    weights = ":".join(f"{tenant}:{quota:.4f}" for tenant, quota in quotas.items())
    return f"quotas={weights}&granted={sum(quotas.values()):.4f}&most=1"


# A job retries after three minutes, and half of all waits are that long: one failed try was enough
# to relax locality.
PHILLY = Settings(policy=f"philly?{_limits()}&r1=1&r2=3", placement="balance")
GUIDELINES = Settings(policy="backfill", effects="philly", restart_cost="60")
FAILURES = replace(GUIDELINES, retries=3, faults=FaultSettings(job_failures=1.0))

# The longest job takes a week, because a run covers days. Waits come in bursts, so many runs are
# combined. Load, quotas, placement, thresholds and how a wait is counted were chosen on seeds 0 to
# 31, and 24 more are added; docs/philly.md has the results of those alone.
_STUDY = f"generate:philly?jobs=20000&load={_LOAD}&longest=604800&seed={{}}"
_SEEDS = range(56)
_WARM = 0.4  # of the arrivals' span: warm-up, not counted
_SWEPT = "generate:philly?jobs=8000&load=0.7&longest=172800"
_TRIES = ((0, 0), (1, 3), (1, 8), (3, 8), (1000, 1000))  # the last never relaxes
_MINI = "philly-mini"
_GUIDED = "generate:philly?jobs=3000&load=0.9&longest=604800"
_FAILING = "generate:philly?jobs=6000&load=0.8&longest=604800"

# Shares of the waits of multi-device jobs that fragmentation caused, in percent; fair share the
# others (table 2, which counts waits and not time).
_FRAGMENTATION = {"2-4": 59.4, "5-8": 74.2, ">8": 97.9}
# The median wait in minutes; by size, the median of the five largest virtual clusters.
_WAIT_MIN = 3.0
_WAIT_MIN_BY_SIZE = {"1": 2.2, "2-4": 2.3, "5-8": 3.1, ">8": 3.1}
# The 90th percentile of the five largest virtual clusters: single-device jobs, and those of 5 to 8.
_WAIT_MIN_BY_TENANT = {
    "6214e9": (89.0, 117.0),
    "11cb48": (17.0, 93.0),
    "6c71a0": (13.0, 36.0),
    "b436b2": (154.0, 76.0),
    "ee9e8c": (8.4, 27.0),
}
_EMPTY = 4.5  # at most this % of servers are empty at two thirds of the load
# In % of failed trials: those with a deterministic reason; those within five minutes, of all and of
# multi-device ones. From table 7, interpolated between its quantiles.
_DETERMINISTIC, _WITHIN_5, _WITHIN_5_MULTI = 82.0, 47.0, 53.0

_WRAPPERS = {
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
    """The study's quotas for its own scheduler, its slow-downs for any other policy."""
    if name == "philly":
        return PHILLY
    return replace(GUIDELINES, policy=name)


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:  # noqa: ARG001
    """Every figure under its heading; all workloads are generated."""
    yield from _scheduler((load(_STUDY.format(s), cluster=cluster) for s in _SEEDS), cluster)
    yield from _relaxing(load(_SWEPT, cluster=cluster), cluster)
    mini = parse_cluster(_MINI)
    yield from _guidelines(load(_GUIDED, cluster=mini), mini)
    yield from _failures(load(_FAILING, cluster=mini), mini)


def _scheduler(workloads: Iterable[Workload], cluster: Cluster) -> Iterator[tuple[str, Row]]:
    waits, empty = Waits(), Empty()
    for workload in workloads:
        _watched_arrivals(workload, cluster, PHILLY, waits, empty)
    heading = "philly: spells of waiting that fragmentation caused, % of a size (within 10 points)"
    for bucket, published in _FRAGMENTATION.items():
        what = f"{bucket} devices, {waits.count(bucket)} waits"
        yield heading, Row(what, waits.fragmentation(bucket), published, 10.0 / published)
    heading = "philly: median wait, minutes"
    yield heading, Row("all of several devices", waits.median_min(), _WAIT_MIN, 0.25)
    what = "those of several devices that wait"
    yield heading, Row(what, waits.median_min(waited=True), None)
    for bucket, published in _WAIT_MIN_BY_SIZE.items():
        yield heading, Row(f"all of {bucket} devices", waits.minutes(bucket, 50), published)
    for place, bucket in enumerate(("1", "5-8")):
        heading = f"philly: wait of jobs of {bucket} devices by virtual cluster, p90 minutes"
        for tenant, tenants in _WAIT_MIN_BY_TENANT.items():
            yield heading, Row(tenant, waits.minutes(bucket, 90, tenant), tenants[place])
    heading = "philly: waiting"
    yield heading, Row("jobs that wait at all, %", waits.waiting_share, None)
    yield heading, Row("failed tries for want of a place, %", waits.placeless_tries, 80.0)
    heading = "philly: empty servers at two thirds load, %"
    yield heading, Row("philly", empty.share, _EMPTY, at_most=True)


def _relaxing(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """The effect of the two thresholds on the waits and the node counts of large jobs.

    Idle devices are lent without a limit here, so that hardly any job waits for a share.
    """
    found: dict[str, Waits] = {}
    for r1, r2 in _TRIES:
        waits = found[f"r1={r1}, r2={r2}"] = Waits()
        policy = f"philly?quotas=philly&r1={r1}&r2={r2}"
        _watched_arrivals(workload, cluster, replace(PHILLY, policy=policy), waits)
    for bucket in ("5-8", ">8"):
        for name, waits in found.items():
            heading = f"relaxing: wait of jobs of {bucket} devices, p90 minutes"
            yield heading, Row(name, waits.minutes(bucket, 90), None)
        for name, waits in found.items():
            yield (
                f"relaxing: nodes of a job of {bucket} devices",
                Row(name, waits.nodes(bucket), None),
            )


def _watched_arrivals(
    workload: Workload, cluster: Cluster, chosen: Settings, *watchers: "Waits | Empty"
) -> None:
    """Run while jobs arrive, and observe after the warm-up."""
    experiment = prepare(workload, cluster, chosen)
    last_at = max(job.submit_at for job in workload.jobs)
    for watcher in watchers:
        watcher.begin(_WARM * last_at)
        experiment.simulation.observe(watcher)
    experiment.simulation.run(until=last_at)


def _guidelines(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """Each guideline against none: what fragmentation costs, and what the guideline changes."""
    measured: dict[str, tuple[Recorder, Summary, float]] = {}
    for name, wrappers in _WRAPPERS.items():
        empty = Empty()
        chosen = replace(GUIDELINES, policy=GUIDELINES.policy + wrappers)
        measured[name] = (*_watched(workload, cluster, chosen, empty), empty.share)
    alone_h = measured["alone"][0].waited_s("fragmentation") / 3600 / len(workload.jobs)
    for name, (recorder, _, _) in measured.items():
        hours_each = recorder.waited_s("fragmentation") / 3600 / len(workload.jobs)
        # These two exist to shorten it; the others trade it for something else.
        shorter = name in {"wait for locality", "defragmentation"}
        row = Row(name, hours_each, alone_h if shorter else None, at_most=shorter)
        yield "guidelines: wait for want of a place, hours a job", row
    for name, (recorder, _, _) in measured.items():
        waits_h = sorted(s.waited_s / 3600 for s in recorder.histories.values() if s.spec.asked > 8)
        longest = percentile(waits_h, 95) or 0.0
        yield "guidelines: wait of jobs above 8 devices, p95 hours", Row(name, longest, None)
    for name, (_, summary, _) in measured.items():
        yield "guidelines: average completion time, hours", Row(name, hours(summary), None)
    for name, (_, _, share) in measured.items():
        yield "guidelines: empty servers at two thirds load, %", Row(name, share, _EMPTY)


def _failures(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, Row]]:
    """What failures waste under each rule: device-hours of failed attempts."""
    wasted: dict[str, Trials] = {}
    for name, chosen in _RETRIES.items():
        recorder, _ = _watched(workload, cluster, chosen)
        wasted[name] = Trials(recorder)
    base = wasted["three retries"]
    heading = "failures: failed trials, %"
    yield heading, Row("with a deterministic reason", base.deterministic(), _DETERMINISTIC, 0.15)
    # More than in the study: a failure drawn after a job's end never happens, and jobs are short.
    yield heading, Row("within 5 minutes", base.early(1), _WITHIN_5)
    yield heading, Row("within 5 minutes, several devices", base.early(2), _WITHIN_5_MULTI)
    for name, one in wasted.items():
        # No rule can avoid a trial that would not have failed again.
        fewer = 100 * (1 - one.count / max(base.count, 1))
        bounded = name == "classified"
        row = Row(name, fewer, _DETERMINISTIC if bounded else None, at_most=bounded)
        yield "failures: failed trials, % fewer", row
    for name, one in wasted.items():
        yield "failures: device-hours of trials that failed", Row(name, one.device_h, None)
    heading = "failures: trials of several devices that failed on all of them, % fewer"
    for name, one in wasted.items():
        fewer = 100 * (1 - one.on_all / max(base.on_all, 1))
        # A trial of five minutes catches only failures within five minutes.
        bounded = name == "three retries, try small"
        bound = base.early(2) if bounded else None
        yield heading, Row(name, fewer, bound, at_most=bounded)


def _watched(
    workload: Workload, cluster: Cluster, chosen: Settings, *watchers: Observer
) -> tuple[Recorder, Summary]:
    experiment = prepare(workload, cluster, chosen)
    for watcher in watchers:
        experiment.simulation.observe(watcher)
    summary = experiment.finish()
    return experiment.recorder, summary


PAPER = Paper(
    cluster="philly-fixed",
    policies=("philly", "backfill", "fifo"),
    figures=figures,
    settings=settings,
)
