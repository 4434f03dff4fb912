"""AITurbo (Zhao et al., HPDC'21): what it is worth to know which ends can be predicted.

The paper's traces are not public. Jobs are drawn like those of the authors' released job table
(`generate:aiturbo`), with varying shares of unpredictable jobs. Those are short in the table, so a
larger share changes the whole workload; this variant is judged. A second variant keeps the jobs and
changes only their losses; there a gap changes only because of what can be predicted.

Jobs may grow to twice the size they ask for, a tenth of their work does not scale, and every change
of a running job costs 30 s. Job lengths are hidden: policies get predictions from the losses so
far. The published figures are read off plots of a successor of the system, some of which look
entered by hand: they show a direction and are not judged.

Cluster and load are like the successor's: two nodes, fifteen jobs for each GPU, and so full that
jobs under `aiturbo` wait for about the same share of their time as there (27 %). They were chosen
from several after the results were seen; docs/aiturbo.md has the others.

Each baseline is judged as its own paper runs it: Optimus in rounds, here of 300 s, and Tiresias
whenever a job arrives, ends or changes its queue. The authors ran both in rounds; the other way is
shown too. The growth of a gap is its size with all jobs unpredictable over its size with none.
docs/aiturbo.md says what does not hold: in rounds Tiresias' gap grows, and with unchanged jobs
Optimus' does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle.core.cluster import Cluster, Node
from treadle.replications.paper import Find, Paper, hours
from treadle.replications.rows import Row
from treadle.sim.experiment import prepare
from treadle.sim.settings import Settings
from treadle.traces.aiturbo import ARRIVALS, DURATIONS
from treadle.traces.synthetic import generate

SETTINGS = Settings(policy="aiturbo", elastic=0.1, restart_cost="30", lengths="losses")
JOBS = 240
SEEDS = (1, 2, 3, 4, 5, 6)
LOAD = 2.0
LESS_FULL = 1.0
STEADY = "poisson"
TABLE = 0.15  # of the jobs of the released table are unpredictable
EVERY_300_S, EVENT = "rounds:300", "event"
WAYS = {EVERY_300_S: "every 300 s", EVENT: "at every event"}
JUDGED = {"optimus": EVERY_300_S, "tiresias": EVENT}
BASELINES = tuple(JUDGED)
BY_KIND, ALIKE = DURATIONS
SWEEPS = {BY_KIND: "unpredictable ones short", ALIKE: "the same jobs"}
# Average completion time over AITurbo's, by the share of unpredictable jobs.
PUBLISHED: Mapping[float, tuple[float, float]] = {
    0.0: (1.42, 3.58),
    0.25: (1.64, 3.21),
    0.5: (2.02, 3.15),
    0.75: (3.00, 3.00),
    1.0: (3.90, 2.20),
}
AT_LEAST = (1.4, 2.0)  # of Optimus and Tiresias, at the table's share
PUBLISHED_TABLE = (1.45, 2.26)
PUBLISHED_WAITS = {"aiturbo": 30 / 110, "optimus": 57 / 155, "tiresias": 80 / 260}
_CPU_NODES, _SLOTS_EACH = 3, 16  # for each GPU as many cores as on the successor's cluster
_CPU_ONLY = 0.117  # of the table's jobs


@dataclass(frozen=True, slots=True)
class Case:
    """One policy on one kind of workload."""

    policy: str = "aiturbo"
    time: str = EVENT
    share: float = TABLE
    durations: str = BY_KIND
    lengths: str = SETTINGS.lengths
    arrivals: str = STEADY
    load: float = LOAD
    cpu_only: float = 0.0
    slots: bool = False  # beside the GPUs


class Runs:
    """Averages over all seeds; each case is run once."""

    def __init__(self, cluster: Cluster, seeds: Sequence[int]) -> None:
        slots = (Node(f"c{n}", _SLOTS_EACH, device_type="cpu") for n in range(_CPU_NODES))
        self._seeds = seeds
        self._gpus = cluster
        self._both = Cluster((*cluster.nodes, *slots))
        self._found: dict[Case, tuple[float, float]] = {}

    def mean_h(self, case: Case) -> float:
        """Average completion time."""
        return self._of(case)[0]

    def waits(self, case: Case) -> float:
        """The share of its completion time that an average job waits."""
        return self._of(case)[1]

    def times(self, case: Case) -> float:
        """How many times faster `aiturbo` is than a baseline that is run like this."""
        return self.mean_h(case) / self.mean_h(replace(case, policy="aiturbo", time=EVENT))

    def _of(self, case: Case) -> tuple[float, float]:
        if case not in self._found:
            found = [self._run(case, seed) for seed in self._seeds]
            mean_h = sum(found_h for found_h, _ in found) / len(found)
            self._found[case] = mean_h, sum(waited_h for _, waited_h in found) / len(found) / mean_h
        return self._found[case]

    def _run(self, case: Case, seed: int) -> tuple[float, float]:
        workload = generate(
            "aiturbo",
            jobs=JOBS,
            seed=seed,
            load=case.load,
            cluster=self._gpus,
            arrivals=case.arrivals,
            unpredictable=case.share,
            cpu_only=case.cpu_only,
            durations=case.durations,
        )
        cluster = self._both if case.slots else self._gpus
        chosen = replace(
            SETTINGS, policy=case.policy, time=case.time, lengths=case.lengths, seed=seed
        )
        summary = prepare(workload, cluster, chosen).finish()
        assert summary.queue_mean_s is not None, "every job of these traces finishes"
        return hours(summary), summary.queue_mean_s / 3600.0


def settings(name: str, options: Mapping[str, str]) -> Settings:  # noqa: ARG001  # it has none
    """The settings under which a policy is judged; all but Optimus decide at every event."""
    return replace(SETTINGS, policy=name, time=JUDGED.get(name.partition("?")[0], EVENT))


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:  # noqa: ARG001
    """Every figure under its heading; all workloads are drawn."""
    runs = Runs(cluster, SEEDS)
    for durations in SWEEPS:
        yield from _by_share(runs, durations)
    yield from _least(runs)
    yield from _shapes(runs)
    yield from _with_the_tables_share(runs)
    yield from _with_cpu_nodes(runs)
    heading = "average completion time by the public controller's rule, hours"
    for policy in ("aiturbo", "aiturbo?fidelity=raw"):
        yield heading, Row(policy, runs.mean_h(Case(policy)), None)


def _by_share(runs: Runs, durations: str) -> Iterator[tuple[str, Row]]:
    jobs = SWEEPS[durations]
    for share in PUBLISHED:
        mean_h = runs.mean_h(Case(share=share, durations=durations))
        yield (
            f"average completion time of aiturbo, {jobs}, hours",
            Row(_percent(share), mean_h, None),
        )
    for number, baseline in enumerate(BASELINES):
        for time, way in WAYS.items():
            heading = f"times faster than {baseline}, which decides {way}, {jobs}"
            for share, published in PUBLISHED.items():
                ratio = runs.times(Case(baseline, time, share, durations))
                yield heading, Row(_percent(share), ratio, published[number])


def _least(runs: Runs) -> Iterator[tuple[str, Row]]:
    heading = "times faster at the least, whatever the share"
    for baseline in BASELINES:
        cases = [Case(baseline, t, share, d) for t in WAYS for share in PUBLISHED for d in SWEEPS]
        yield heading, Row(baseline, min(map(runs.times, cases)), 1.0, at_least=True)


def _shapes(runs: Runs) -> Iterator[tuple[str, Row]]:
    """How gaps change with the share; judged on jobs like the table's."""
    none, all_of_them = min(PUBLISHED), max(PUBLISHED)
    for durations, jobs in SWEEPS.items():
        heading = f"the gap with all unpredictable over that with none, {jobs}"
        for number, baseline in enumerate(BASELINES):
            for time, way in WAYS.items():
                case = Case(baseline, time, durations=durations)
                gaps = [runs.times(replace(case, share=share)) for share in (none, all_of_them)]
                published = PUBLISHED[all_of_them][number] / PUBLISHED[none][number]
                row = Row(f"{baseline}, {way}", gaps[1] / gaps[0], published)
                if durations == BY_KIND and JUDGED[baseline] == time:
                    grows = baseline == "optimus"
                    row = replace(row, published=1.0, at_least=grows, at_most=not grows)
                yield heading, row
    told_h = runs.mean_h(Case("optimus", EVERY_300_S, none, ALIKE, lengths="known"))
    for share in PUBLISHED:
        mean_h = runs.mean_h(Case("optimus", EVERY_300_S, share, ALIKE))
        heading = "optimus' average over what it is if told how long jobs are, the same jobs"
        yield heading, Row(_percent(share), mean_h / told_h, None)


def _with_the_tables_share(runs: Runs) -> Iterator[tuple[str, Row]]:
    heading = "times faster with the table's share, steady arrivals"
    for limit, baseline in zip(AT_LEAST, BASELINES, strict=True):
        for time, way in WAYS.items():
            ratio = runs.times(Case(baseline, time))
            yield heading, Row(f"{baseline}, {way}", ratio, limit, at_least=True)
    heading = "share of the completion time spent waiting"
    for policy, published in PUBLISHED_WAITS.items():
        yield heading, Row(policy, runs.waits(Case(policy, JUDGED.get(policy, EVENT))), published)
    for time, way in WAYS.items():
        heading = f"times faster with the table's share, baselines decide {way}"
        for published, baseline in zip(PUBLISHED_TABLE, BASELINES, strict=True):
            for arrivals in ARRIVALS:
                ratio = runs.times(Case(baseline, time, arrivals=arrivals))
                yield heading, Row(f"{baseline}, {arrivals} arrivals", ratio, published)
            ratio = runs.times(Case(baseline, time, load=LESS_FULL))
            what = f"{baseline}, {STEADY} arrivals at load {LESS_FULL:g}"
            yield heading, Row(what, ratio, published)


def _with_cpu_nodes(runs: Runs) -> Iterator[tuple[str, Row]]:
    slots = f"with {_CPU_NODES * _SLOTS_EACH} CPU slots"
    kinds = {"all jobs use GPUs": 0.0, "11.7 % of the families do not": _CPU_ONLY}
    for what, cpu_only in kinds.items():
        heading = f"average completion time of aiturbo where {what}, hours"
        yield heading, Row("GPUs alone", runs.mean_h(Case(cpu_only=cpu_only)), None)
        yield heading, Row(slots, runs.mean_h(Case(cpu_only=cpu_only, slots=True)), None)
    for what, cpu_only in kinds.items():
        gain = runs.mean_h(Case(cpu_only=cpu_only))
        gain /= runs.mean_h(Case(cpu_only=cpu_only, slots=True))
        yield f"times faster {slots}", Row(what, gain, 1.0, at_least=True)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} % unpredictable"


PAPER = Paper(
    cluster="2x8",
    policies=("aiturbo", *BASELINES),
    figures=figures,
    settings=settings,
)
