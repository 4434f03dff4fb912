"""Simulated faults, drawn from a seed: nodes that are lost and return, jobs that fail.

Job failures follow the Philly study (Jeon et al., ATC'19, table 7): a job fails with a probability
that depends on its size. The reason is drawn by how many jobs it hit, the time to failure from the
reason's quantiles. Deterministic reasons hit every attempt, transient ones again with probability
0.2. Every draw depends on the seed and the job alone, so the same job fails the same way under
every policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import exp, inf, log
from random import Random
from typing import Self

from treadle.core.cluster import Cluster, Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import Event, NodeJoined, NodeLost
from treadle.core.job import JobSpec
from treadle.core.retry import FailureClass


@dataclass(frozen=True, slots=True)
class Reason:
    """One row of the table. Quantiles of the run time to failure are in minutes."""

    name: str
    jobs: int
    trials: tuple[int, int, int]  # on 1, on 2-4, on more than 4 devices
    p50: float
    p90: float
    p95: float
    deterministic: bool

    def trials_share(self, size: int) -> float:
        """The reason's trials on jobs of this size, as a share of all its trials."""
        return self.trials[_bucket(size)] / sum(self.trials)

    def time_to_failure_s(self, quantile: float) -> float:
        """Log-linear between the published quantiles; from a tenth of p50 to twice p95."""
        knots = [
            (0.0, self.p50 / 10),
            (0.5, self.p50),
            (0.9, self.p90),
            (0.95, self.p95),
            (1.0, 2 * self.p95),
        ]
        for (q0, low), (q1, high) in pairwise(knots):
            if quantile <= q1:
                share = (quantile - q0) / (q1 - q0)
                return 60.0 * exp(log(low) + share * (log(high) - log(low)))
        raise AssertionError(f"a quantile is at most 1, not {quantile}")


_D, _T = True, False
REASONS: Sequence[Reason] = (
    Reason("CPU out of memory", 2803, (11465, 235, 376), 13.45, 17.73, 33.97, _D),
    Reason("incorrect inputs", 4936, (5844, 2638, 1208), 1.87, 404.83, 2095.73, _D),
    Reason("semantic error", 2049, (1603, 494, 846), 2.72, 376.0, 1436.88, _D),
    Reason("core dump", 1784, (1936, 496, 480), 0.85, 72.75, 431.65, _T),
    Reason("invalid memory access", 1235, (712, 774, 1116), 1.03, 403.5, 1357.38, _D),
    Reason("model checkpoint error", 948, (743, 384, 868), 181.67, 3728.93, 8196.02, _T),
    Reason("CUDA failure", 571, (133, 1153, 198), 1.32, 19.87, 82.17, _T),
    Reason("syntax error", 883, (780, 184, 168), 0.58, 5.02, 12.0, _D),
    Reason("traceback from crash", 271, (356, 277, 144), 1.02, 894.33, 1394.07, _T),
    Reason("MPI error", 166, (456, 54, 124), 1.62, 3015.27, 5143.98, _T),
    Reason("GPU out of memory", 261, (237, 70, 180), 18.53, 353.62, 2740.28, _D),
    Reason("MPI runtime failure", 420, (240, 141, 97), 1389.48, 13778.6, 18090.88, _T),
    Reason("permission error", 151, (56, 202, 41), 1.0, 8.15, 15.85, _D),
    Reason("import error", 148, (108, 30, 10), 0.67, 4.58, 10.73, _D),
    Reason("CUDA init failed", 69, (16, 66, 59), 1.08, 2.18, 4.63, _T),
    Reason("model diverged", 30, (78, 5, 1), 1.48, 44.37, 76.53, _T),
    Reason("CUDA version mismatch", 49, (1, 1, 47), 0.83, 1.65, 1.67, _D),
    Reason("GPU ECC", 10, (1, 5, 4), 26.82, 671.92, 2035.02, _T),
    Reason("no signature", 698, (1235, 294, 155), 1.87, 28.0, 95.17, _T),
)
# Jobs of each size bucket in the study's window (96,260 jobs; shares of the released log), so
# that failures of a bucket divide by jobs of a bucket.
_JOBS = (96_260 * 0.872, 96_260 * 0.070, 96_260 * 0.058)
_RECURS = 0.2  # probability that a transient reason hits the next attempt too

# The class that a log classifier would give to a reason. It cannot tell core dumps and crashes
# apart, whatever the cause; and a job out of memory may have been on a full node.
CLASSES: Mapping[str, FailureClass] = {
    **{r.name: "deterministic" if r.deterministic else "transient" for r in REASONS},
    "CPU out of memory": "resource",
    "GPU out of memory": "resource",
    "core dump": "unknown",
    "traceback from crash": "unknown",
    "model diverged": "unknown",
    "no signature": "unknown",
}


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Which faults to simulate; all off by default."""

    seed: int = 0
    job_failures: float = 0.0  # 1 fails jobs as often as in the Philly study; 0 never
    node_mtbf_s: float = inf  # mean time between failures of one node
    node_repair_s: float = 3600.0
    checkpoint_every_s: float = 1800.0  # work since the last one is lost; inf: no checkpoints

    def __post_init__(self) -> None:
        if not self.job_failures >= 0:
            raise InvalidInputError(f"job failures must be 0 or more, not {self.job_failures:g}")
        for name in ("node_mtbf_s", "node_repair_s", "checkpoint_every_s"):
            seconds = getattr(self, name)
            if not seconds > 0:
                raise InvalidInputError(f"{name} must be above 0 seconds, not {seconds:g}")


class Faults:
    """The faults of one run."""

    def __init__(self, settings: FaultSettings, cluster: Cluster | None = None) -> None:
        self._settings = settings
        self._random = Random(f"nodes/{settings.seed}")
        self._nodes: dict[str, Node] = {}
        self._losses: list[tuple[float, str]] = []
        self._returns: list[tuple[float, str]] = []
        if cluster is not None and settings.node_mtbf_s < inf:
            self._nodes = {node.name: node for node in cluster.nodes}
            self._losses = [(self._uptime_s(), node.name) for node in cluster.nodes]
            heapify(self._losses)
        # Plain attributes, because the engine reads them several times an event.
        self.next_return_at = inf
        self.next_at = inf
        self._look_ahead()

    def fork(self) -> Self:
        twin = type(self)(self._settings)
        twin._random.setstate(self._random.getstate())
        twin._nodes = self._nodes
        twin._losses, twin._returns = self._losses.copy(), self._returns.copy()
        twin._look_ahead()
        return twin

    @property
    def none(self) -> bool:
        """Whether nothing will ever fail."""
        return self.next_at == inf and not self._settings.job_failures

    # -- nodes ----------------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        self.next_return_at = self._returns[0][0] if self._returns else inf
        self.next_at = min(self._losses[0][0] if self._losses else inf, self.next_return_at)

    def due(self, now: float) -> Sequence[Event]:
        """Nodes lost and returned up to now."""
        events: list[Event] = []
        while self.next_at <= now:
            if self.next_return_at <= now and self.next_return_at == self.next_at:
                at, name = heappop(self._returns)
                heappush(self._losses, (at + self._uptime_s(), name))
                events.append(NodeJoined(self._nodes[name]))
            else:
                at, name = heappop(self._losses)
                heappush(self._returns, (at + self._settings.node_repair_s, name))
                events.append(NodeLost(name))
            self._look_ahead()
        return events

    def _uptime_s(self) -> float:
        return self._random.expovariate(1.0 / self._settings.node_mtbf_s)

    # -- jobs -----------------------------------------------------------------------------------

    def strikes(self, spec: JobSpec, attempt: int, now: float) -> tuple[float, str]:
        """When this attempt will fail, and the reason; infinity if it will not."""
        if not self._settings.job_failures:
            return inf, ""
        draw = Random(f"job/{self._settings.seed}/{spec.id}")
        reason = self._reason(spec.asked, draw)
        if reason is None:
            return inf, ""
        for _ in range(attempt - 1):
            if not reason.deterministic and draw.random() >= _RECURS:
                return inf, ""
        return now + reason.time_to_failure_s(draw.random()), reason.name

    def _reason(self, size: int, draw: Random) -> Reason | None:
        """Why a job of that size fails, or None if it does not."""
        chance = draw.random() * _JOBS[_bucket(size)] / self._settings.job_failures
        for reason in REASONS:
            chance -= reason.jobs * reason.trials_share(size)
            if chance < 0:
                return reason
        return None

    def kept(self, spec: JobSpec, iterations: float) -> float:
        """The iterations up to the last checkpoint."""
        every_s = self._settings.checkpoint_every_s
        if every_s == inf:
            return 0.0
        each = every_s / spec.profile.iteration_s
        return iterations // each * each


NO_FAULTS = Faults(FaultSettings())


def _bucket(size: int) -> int:
    """The study's size bucket: 1, 2 to 4, or more devices."""
    return 0 if size == 1 else 1 if size <= 4 else 2
