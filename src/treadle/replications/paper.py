"""What `treadle replicate` needs for a paper: its figures, and its settings for other traces."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from treadle.core.cluster import Cluster
from treadle.replications.rows import Row
from treadle.reports.metrics import Summary
from treadle.sim.settings import Settings
from treadle.traces.workload import Workload

Find = Callable[[str], Workload]  # a trace of the paper by its name


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's experiments."""

    cluster: str
    policies: Sequence[str]  # default policies for a user's trace
    # Yields every figure with its heading, as it is measured.
    figures: Callable[[Find, Cluster], Iterator[tuple[str, Row]]]
    # The paper's settings for a policy by its name here or in the registry, and for options.
    settings: Callable[[str, Mapping[str, str]], Settings]
    options: Sequence[str] = ()  # that it understands
    from_zero: bool = False  # whether it counts a makespan from time 0, not from the first job


def hours(summary: Summary) -> float:
    """Average completion time."""
    assert summary.jct_mean_s is not None, "every job of these traces finishes"
    return summary.jct_mean_s / 3600.0


def end_h(summary: Summary) -> float:
    """When the last job ended, from time 0 on, in hours."""
    assert summary.end_s is not None, "every job of these traces finishes"
    return summary.end_s / 3600.0
