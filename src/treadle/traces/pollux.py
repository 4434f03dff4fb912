"""Pollux' workloads: application, batch size and GPUs, but no duration; the duration is estimated.

Both tables come from the measurements in Pollux' artifact (petuum/adaptdl, branch osdi21-artifact
at c793c7089bd3; Apache-2.0):

- iterations to the target metric at each global batch size: the last row of its validation runs;
- seconds of one iteration on T4 GPUs, four a node: `fixed_s + example_s · local batch`, fitted to
  the one-GPU measurements (within 12 %, YOLOv3 26 %), with `fixed_s` for every pass that the local
  batch needs in memory, plus the median extra of 2 to 4 GPUs in one node, or of more GPUs on as few
  nodes as hold them.

Batch sizes between the measured ones are interpolated in the logarithms. It is an estimate of what
the job would take at the batch size and GPUs in the file, which Pollux itself would change.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import ceil, exp, log

from treadle.traces.table import Table
from treadle.traces.workload import Workload

_GPUS_PER_NODE = 4


@dataclass(frozen=True, slots=True)
class Application:
    """What one of Pollux' six applications costs."""

    iterations: dict[int, int]  # to its target metric, by global batch size, ascending
    fixed_s: float  # of one pass over a local batch
    example_s: float  # of each example in it
    local_batch_max: int  # examples that fit one GPU at once
    one_node_s: float  # added on 2 to 4 GPUs
    many_nodes_s: float  # added on more

    def work(self, batch: int) -> float:
        """Iterations at this global batch size; beyond the table, work per example is constant."""
        known = list(self.iterations)
        if batch in self.iterations:
            return float(self.iterations[batch])
        if not known[0] < batch < known[-1]:
            end = known[0] if batch < known[0] else known[-1]
            return self.iterations[end] * end / batch
        upper = bisect_left(known, batch)
        low, high = known[upper - 1], known[upper]
        share = log(batch / low) / log(high / low)
        return exp((1 - share) * log(self.iterations[low]) + share * log(self.iterations[high]))

    def iteration_s(self, batch: int, size: int) -> float:
        local = batch / size
        passes = ceil(local / self.local_batch_max)
        extra = 0.0 if size == 1 else self.one_node_s
        if size > _GPUS_PER_NODE:
            extra = self.many_nodes_s
        return passes * self.fixed_s + self.example_s * local + extra


# Iterations by batch size, then fixed_s, example_s, local_batch_max, one_node_s, many_nodes_s.
# fmt: off
APPLICATIONS = {
    "bert": Application(
        {12: 14774, 24: 7427, 48: 3732, 96: 1885, 192: 940, 384: 480},
        0.2233, 0.05825, 12, 0.0372, 1.0371,
    ),
    "cifar10": Application(
        {128: 39062, 256: 20377, 512: 10615, 1024: 5722, 2048: 3178, 4096: 2011},
        0.02038, 0.0006498, 1024, 0.0154, 0.0896,
    ),
    "deepspeech2": Application(
        {20: 28536, 40: 14711, 80: 7683, 160: 4041, 320: 2264, 640: 1423},
        0.1908, 0.02549, 80, 0.1037, 0.4446,
    ),
    "imagenet": Application(
        {200: 576525, 400: 292995, 800: 150231, 1600: 78453, 3200: 42123, 6400: 23972,
         12800: 14461},
        0.07191, 0.004313, 200, 0.0095, 0.149,
    ),
    "ncf": Application(
        {256: 194174, 512: 97094, 1024: 48625, 2048: 24308, 4096: 12172, 8192: 6122, 16384: 3069,
         32768: 1548},
        0.007511, 4.581e-07, 32768, 0.0036, 0.0197,
    ),
    "yolov3": Application(
        {8: 103444, 16: 52905, 32: 27430, 64: 14577, 128: 8075, 256: 4809, 512: 3143},
        0.1763, 0.02651, 16, 0.1114, 0.8559,
    ),
}
# fmt: on


def read_pollux(table: Table) -> Workload:
    """Seconds since the trace's begin; work and speed from the two tables."""
    identity, kind = table.text("name", required=True), table.text("application", required=True)
    submit, size, batch = (
        table.moment("time"),
        table.count("num_replicas"),
        table.count("batch_size"),
    )
    for row in table.rows():
        application = APPLICATIONS.get(kind(row))
        if application is None:
            raise table.error(
                f"application {kind(row)!r} has no measured speed; "
                f"expected one of {', '.join(APPLICATIONS)}"
            )
        iteration_s = application.iteration_s(batch(row), size(row))
        work, submit_at = application.work(batch(row)), submit(row)
        table.rigid(identity(row), size(row), work, submit_at, model=kind(row), alone_s=iteration_s)
    return table.workload(
        "pollux",
        "the trace has no durations: iterations to the target metric and seconds an iteration are "
        "estimated from Pollux' T4 measurements at the file's batch size and GPUs",
    )
