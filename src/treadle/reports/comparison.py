"""Runs of one workload under several policies, for tables and charts side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.core.cluster import Cluster
from treadle.core.errors import InvalidInputError
from treadle.core.job import JobId
from treadle.reports.bookkeeping import WAIT_CAUSES
from treadle.reports.metrics import Summary, finish_time_fairness, never_started, queue_lengths
from treadle.reports.recorder import Recorder

# Okabe and Ito's colours, which colour-blind readers can distinguish.
# Yellow is left out (too faint on white) and so is black (lost on a dark page).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#aa4499")


@dataclass(frozen=True, slots=True)
class Run:
    """One policy's run."""

    policy: str
    summary: Summary
    recorder: Recorder
    never_fit: frozenset[JobId] = frozenset()  # left out of the queue in charts
    notes: Sequence[str] = ()  # what was assumed in this run

    def completion_s(self) -> list[float]:
        """Submission to finish, of each finished job."""
        return [
            history.ended_at - history.submitted_at
            for history in self.recorder.histories.values()
            if history.status == "finished" and history.ended_at is not None
        ]

    def fairness(self) -> list[float]:
        """Finish-time fairness of each finished job."""
        return [
            finish_time_fairness(history, self.summary.devices)
            for history in self.recorder.histories.values()
            if history.status == "finished"
        ]

    def waiting(self) -> Sequence[float]:
        """Jobs in the queue after each moment of the series."""
        return queue_lengths(self.recorder, never_started(self.recorder, self.never_fit))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs, and the command that reproduces them."""

    title: str
    command: str  # the exact command that reproduces it
    notes: Sequence[str]  # trace, cluster, seed, licences and citations: one sentence each
    cluster: Cluster
    runs: Sequence[Run]  # the first one is the baseline

    def __post_init__(self) -> None:
        if not self.runs:
            raise InvalidInputError("a comparison needs at least one run")
        names = [run.policy for run in self.runs]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInputError(f"policy {name} is compared with itself; name it once")

    def header(self) -> dict[str, object]:
        """What was compared, as the beginning of a JSON object."""
        return {
            "title": self.title,
            "command": self.command,
            "notes": list(self.notes),
            "nodes": len(self.cluster.nodes),
            "devices": self.cluster.device_count,
        }

    def span(self) -> tuple[float, float]:
        """The first submission and the last event of all runs."""
        recorders = [run.recorder for run in self.runs]
        starts = [history.submitted_at for one in recorders for history in one.histories.values()]
        ends = [one.series.at[-1] for one in recorders if one.series.at]
        from_at = min(starts, default=0.0)
        return from_at, max([from_at, *ends])

    def causes(self) -> list[str]:
        """The causes of waiting; fair share only if some policy has fair shares."""
        shares = (run.summary.wait_causes or {} for run in self.runs)
        fair = any(some.get("fair share") for some in shares)
        return [cause for cause in WAIT_CAUSES if fair or cause != "fair share"]


def colour(index: int) -> str:
    """The colour of the run with that index."""
    return PALETTE[index % len(PALETTE)]
