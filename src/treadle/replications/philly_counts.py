"""The counts of the Philly study: waits by cause, empty servers, and failed trials."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from treadle.core.actions import Action, Start
from treadle.core.events import Event, JobFailed, JobSubmitted
from treadle.core.job import JobId
from treadle.core.scheduler import Scheduler
from treadle.policies.simple.philly_tries import Memory, Wait
from treadle.reports.metrics import percentile, size_bucket
from treadle.reports.recorder import Recorder
from treadle.sim.faults import CLASSES


class _Wait(NamedTuple):
    """One that is over."""

    seconds: float
    tenant: str
    tries: list[bool]  # that failed; whether fair share stopped them


class Waits:
    """Waits from a submission or failure to the start, by the cause of their failed tries."""

    def __init__(self) -> None:
        self._begin_at = 0.0
        self._open: dict[JobId, list[bool]] = {}  # waiting now -> tries that fair share stopped
        self._last: dict[JobId, Wait] = {}
        self._over: dict[str, list[_Wait]] = {}  # by bucket
        self._nodes: dict[str, list[int]] = {}  # bucket -> nodes of each start

    def begin(self, at: float) -> None:
        """Another run follows; it counts from then on."""
        self._begin_at = at
        self._open.clear()
        self._last.clear()

    def __call__(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        if now >= self._begin_at:
            for event in events:
                if isinstance(event, JobSubmitted | JobFailed):
                    job = event.spec.id if isinstance(event, JobSubmitted) else event.job
                    if job in scheduler.jobs:
                        self._open[job] = []
        memory = scheduler.snapshot(now).memory
        for job, wait in memory.waits.items() if isinstance(memory, Memory) else ():
            if job in self._open and self._last.get(job) is not wait:
                self._last[job] = wait
                self._open[job].append(wait.fair_share)
        for action in actions:
            if isinstance(action, Start) and action.job in self._open:
                row = scheduler.jobs[action.job]
                bucket = size_bucket(row.spec.asked)
                tries = self._open.pop(action.job)
                over = _Wait(row.last_wait_s, row.spec.tenant, tries)
                self._over.setdefault(bucket, []).append(over)
                self._nodes.setdefault(bucket, []).append(len(action.allocation.nodes()))

    def count(self, bucket: str) -> int:
        return sum(1 for wait in self._over.get(bucket, ()) if wait.tries)

    def fragmentation(self, bucket: str) -> float:
        """The percentage of waiting spells of a size that fragmentation caused.

        A spell is a run of failed tries with one cause. A wait whose cause changes twice is three
        spells.
        """
        spells = Counter(
            cause for wait in self._over.get(bucket, ()) for cause, _ in groupby(wait.tries)
        )
        return 100 * spells[False] / max(spells.total(), 1)

    def minutes(self, bucket: str, percent: float, tenant: str | None = None) -> float:
        """A percentile over all starts, immediate ones included; of one tenant or of all."""
        waited_s = sorted(
            wait.seconds
            for wait in self._over.get(bucket, ())
            if tenant is None or wait.tenant == tenant
        )
        return (percentile(waited_s, percent) or 0.0) / 60

    def nodes(self, bucket: str) -> float:
        """The mean node count of a start."""
        counts = self._nodes.get(bucket, [])
        return sum(counts) / max(len(counts), 1)

    def median_min(self, *, waited: bool = False) -> float:
        """The median wait of multi-device jobs: of all, or of those that waited."""
        several = [wait for bucket, over in self._over.items() if bucket != "1" for wait in over]
        waited_s = sorted(wait.seconds for wait in several if wait.tries or not waited)
        return (percentile(waited_s, 50) or 0.0) / 60

    @property
    def waiting_share(self) -> float:
        waits = [bool(wait.tries) for waits in self._over.values() for wait in waits]
        return 100 * sum(waits) / max(len(waits), 1)

    @property
    def placeless_tries(self) -> float:
        tries = [t for waits in self._over.values() for wait in waits for t in wait.tries]
        return 100 * tries.count(False) / max(len(tries), 1)


class Empty:
    """The share of servers without a job while about two thirds of the devices are in use."""

    EVERY_S = 600.0

    def __init__(self) -> None:
        self._next_at = 0.0
        self._shares: list[float] = []

    def begin(self, at: float) -> None:
        """Another run follows; it counts from then on."""
        self._next_at = at

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
        """In percent; 0 if the load was never near two thirds."""
        return sum(self._shares) / max(len(self._shares), 1)


class Trials:
    """Statistics of the failed attempts in a record."""

    def __init__(self, recorder: Recorder) -> None:
        self._failures = recorder.failures
        self._asked = {job: history.spec.asked for job, history in recorder.histories.items()}

    @property
    def count(self) -> int:
        return len(self._failures)

    @property
    def on_all(self) -> int:
        """Multi-device attempts that failed while they held all their devices."""
        return sum(1 < self._asked[failed.job] <= failed.size for failed in self._failures)

    @property
    def device_h(self) -> float:
        return sum(failed.device_s for failed in self._failures) / 3600

    def deterministic(self) -> float:
        """The percentage that would fail the same way again."""
        classes = [CLASSES[failed.reason] for failed in self._failures]
        again = sum(kind in {"deterministic", "resource"} for kind in classes)
        return 100 * again / max(self.count, 1)

    def early(self, least: int) -> float:
        """The percentage that failed within 5 minutes, of jobs of at least `least` devices."""
        asked = self._asked
        ran_s = [f.device_s / asked[f.job] for f in self._failures if asked[f.job] >= least]
        return 100 * sum(s <= 300.0 for s in ran_s) / max(len(ran_s), 1)
