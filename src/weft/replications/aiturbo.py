"""AITurbo (Zhao et al., HPDC'21): how much it helps to know whose end can be predicted.

The paper's traces are not public. Jobs are drawn like those of the authors' released job table
(`generate:aiturbo`), with other shares of unpredictable ones; those are short, as in the table.
Jobs may grow to twice the size they ask for, a tenth of their work does not scale, and whatever
changes a running job costs 30 s. How long jobs are, nobody is told: every policy that asks gets
what can be told from the losses so far. The published figures are read off plots of a successor of
the system, some of which look entered by hand: they show a direction and are not judged.

The authors let the baselines decide every 300 s, and AITurbo whenever a job arrives. Half of every
gap may come from that, so the baselines run both ways, the second being the stronger.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.core.cluster import Cluster, Node
from weft.replications.paper import Find, Paper, hours, ready
from weft.replications.rows import Row
from weft.sim.settings import Settings
from weft.traces.aiturbo import ARRIVALS
from weft.traces.synthetic import generate
from weft.traces.workload import Workload

SETTINGS = Settings(policy="aiturbo", elastic=0.1, restart_cost="30", lengths="losses")
EVERY = "rounds:300"  # how often the authors' baselines decide
JOBS = 600
SEEDS = (1, 2, 3)
LOAD = 1.0
STEADY = "poisson"
TABLE = 0.15  # of the jobs of the released table
BASELINES = ("optimus", "tiresias")
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
_WAYS = {"every 300 s": EVERY, "at every event": "event"}
_CPU_NODES, _SLOTS_EACH = 8, 16
_CPU_ONLY = 0.117  # of the table's jobs


def settings(name: str, options: Mapping[str, str]) -> Settings:  # noqa: ARG001  # it has none
    """How the authors run a policy: the baselines every 300 s."""
    base = name.partition("?")[0]
    return replace(SETTINGS, policy=name, time="event" if base == "aiturbo" else EVERY)


def figures(find: Find, cluster: Cluster) -> Iterator[tuple[str, Row]]:  # noqa: ARG001
    """Every figure under its heading; all workloads are drawn."""
    yield from _by_share(cluster)
    yield from _by_arrivals(cluster)
    yield from _with_cpu_nodes(cluster)
    yield from _raw(cluster)


def _by_share(cluster: Cluster) -> Iterator[tuple[str, Row]]:
    least = dict.fromkeys(BASELINES, float("inf"))
    for share, published in PUBLISHED.items():
        workloads = _workloads(cluster, share)
        ours_h = _mean_h(workloads, cluster, SETTINGS)
        yield "average completion time of aiturbo, hours", Row(_percent(share), ours_h, None)
        for way, time in _WAYS.items():
            for baseline, factor in zip(BASELINES, published, strict=True):
                chosen = replace(SETTINGS, policy=baseline, time=time)
                ratio = _mean_h(workloads, cluster, chosen) / ours_h
                least[baseline] = min(least[baseline], ratio)
                title = f"times faster than {baseline}, which decides {way}"
                yield title, Row(_percent(share), ratio, factor)
    for baseline, ratio in least.items():
        yield (
            "times faster at the least, whatever the share",
            Row(baseline, ratio, 1.0, at_least=True),
        )


def _by_arrivals(cluster: Cluster) -> Iterator[tuple[str, Row]]:
    for arrivals in ARRIVALS:
        workloads = _workloads(cluster, TABLE, arrivals)
        ours_h = _mean_h(workloads, cluster, SETTINGS)
        for way, time in _WAYS.items():
            for number, baseline in enumerate(BASELINES):
                chosen = replace(SETTINGS, policy=baseline, time=time)
                ratio = _mean_h(workloads, cluster, chosen) / ours_h
                what = f"{baseline}, {arrivals} arrivals"
                if arrivals == STEADY:
                    yield (
                        f"times faster with the table's share, baselines decide {way}, at least",
                        Row(what, ratio, AT_LEAST[number], at_least=True),
                    )
                yield (
                    f"times faster with the table's share, baselines decide {way}",
                    Row(what, ratio, PUBLISHED_TABLE[number]),
                )


def _with_cpu_nodes(cluster: Cluster) -> Iterator[tuple[str, Row]]:
    slots = (Node(f"c{n}", _SLOTS_EACH, device_type="cpu") for n in range(_CPU_NODES))
    both = Cluster((*cluster.nodes, *slots))
    for what, cpu_only in (
        ("all jobs use GPUs", 0.0),
        ("11.7 % of the families do not", _CPU_ONLY),
    ):
        workloads = _workloads(cluster, TABLE, cpu_only=cpu_only)
        without_h = _mean_h(workloads, cluster, SETTINGS)
        with_h = _mean_h(workloads, both, SETTINGS)
        title = f"average completion time of aiturbo where {what}, hours"
        yield title, Row("GPUs alone", without_h, None)
        yield title, Row(f"with {_CPU_NODES * _SLOTS_EACH} CPU slots", with_h, None)
        title = "times faster with CPU slots"
        yield title, Row(what, without_h / with_h, 1.0, at_least=True)


def _raw(cluster: Cluster) -> Iterator[tuple[str, Row]]:
    workloads = _workloads(cluster, TABLE)
    for policy in ("aiturbo", "aiturbo?fidelity=raw"):
        mean_h = _mean_h(workloads, cluster, replace(SETTINGS, policy=policy))
        yield (
            "average completion time by the public controller's rule, hours",
            Row(policy, mean_h, None),
        )


def _workloads(
    cluster: Cluster, share: float, arrivals: str = STEADY, *, cpu_only: float = 0.0
) -> list[Workload]:
    return [
        generate(
            "aiturbo",
            jobs=JOBS,
            seed=seed,
            load=LOAD,
            cluster=cluster,
            arrivals=arrivals,
            unpredictable=share,
            cpu_only=cpu_only,
        )
        for seed in SEEDS
    ]


def _mean_h(workloads: Sequence[Workload], cluster: Cluster, chosen: Settings) -> float:
    """Average completion time over all jobs; each workload has its own seed."""
    runs = zip(workloads, SEEDS, strict=True)
    means = [hours(ready(w, cluster, replace(chosen, seed=seed)).finish()) for w, seed in runs]
    return sum(means) / len(means)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} % unpredictable"


PAPER = Paper(
    cluster="8x8",
    policies=("aiturbo", *BASELINES),
    figures=figures,
    count=len(PUBLISHED) * 5 + 2 + len(ARRIVALS) * 4 + 4 + 6 + 2,
    settings=settings,
)
