"""A job: what was asked for (JobSpec) and where it stands (Job)."""

from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import NamedTuple, Self

from treadle.core.allocation import Allocation, Pause
from treadle.core.errors import InvalidInputError
from treadle.core.lifecycle import Phase
from treadle.core.plan import DATA_PARALLEL, Plan
from treadle.core.value import value

JobId = str

# What binds a job to nodes: its folder, or its checkpoints, which other nodes do not see; or that
# its checkpoints would be on several nodes, of which none sees those of the others.
FOLDER, CHECKPOINTS, ONE_NODE = "folder", "checkpoints", "one-node"


@dataclass(frozen=True, slots=True)
class Profile:
    """Where one iteration's time goes, measured at one size, and what a restart costs.

    Traces that only know durations leave the stages as they are here: one iteration is one second
    of exclusive running at the requested size (or alone_s, where a trace knows that much), so that
    times stay whole numbers and ties stay ties. What such a job does in that second is unknown.
    """

    load_s: float = 0.0
    prepare_s: float = 0.0
    compute_s: float = 1.0
    sync_s: float = 0.0
    alone_s: float = 0.0  # one iteration as measured alone; 0: its stages one after another
    size: int = 1  # the stage times were taken on so many devices
    serial: float = 0.0  # share of the work that more devices do not speed up
    restart_s: float = 0.0  # from a stop to the first step of the next start; 0: not known
    resize_s: float = 0.0  # how long another size stalls it while it runs; 0: it has to restart
    suspend_s: float = 0.0  # to pause it with its memory on the host; 0: not known,
    resume_s: float = 0.0  # and until it goes on
    memory_gib: float = 0.0  # of each device, at its peak; 0: not known
    model: str = ""  # the network's name, where it is known
    # Measured (size, seconds of one iteration), ascending; empty where only the serial share is
    # known. Only ratios are used: the stage times above say how long an iteration takes.
    curve: tuple[tuple[int, float], ...] = ()
    # Sizes at which it was measured, ascending; the others of the curve are expected of these.
    measured: tuple[int, ...] = ()
    # Measured while it ran alone, as shares of time: its devices worked, their memory was used.
    # None: it was not seen alone.
    busy: float | None = None
    memory_busy: float | None = None
    cores: float | None = None  # that it used beside each device
    # Measured factors of its speed on more nodes than its size needs, and on several racks; 0: not
    # measured.
    across_nodes: float = 0.0
    across_racks: float = 0.0
    # Measured factors of its speed by type of device; the times above are of the first, which has
    # 1. Empty: it was measured on one type at most.
    by_type: tuple[tuple[str, float], ...] = ()
    # While it runs: if this node stays, others join and leave without a restart. Empty: none do.
    lead: str = ""

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.curve]
        if any(a >= b for a, b in pairwise(sizes)) or any(t <= 0 for _, t in self.curve):
            raise InvalidInputError(f"a scaling curve must ascend in size, not {self.curve}")
        if not self.iteration_s > 0:
            raise InvalidInputError(
                "the stages take 0 seconds; expected at least one to take longer"
            )

    @property
    def iteration_s(self) -> float:
        """One iteration alone, at the measured size."""
        return self.alone_s or self.load_s + self.prepare_s + self.compute_s + self.sync_s


@value
class JobSpec:
    """What a user asked for; it never changes."""

    id: JobId
    iterations: float  # the work; for duration traces, seconds at the asked size
    sizes: tuple[int, ...] = (1,)  # ascending; several mean elastic
    asked: int = 0  # the size the user asked for; 0 means the largest
    profile: Profile = field(default_factory=Profile)
    plans: tuple[Plan, ...] = (DATA_PARALLEL,)  # several mean reconfigurable
    submit_at: float = 0.0
    owner: str = ""
    tenant: str = ""
    guaranteed: bool = True
    priority: int = 0
    deadline_at: float | None = None
    retries: int = 0
    retry_unknown: bool | None = None  # a failure without a known reason; None: as the rule has it
    # Where only the distribution of its length is known, `iterations` is the mean, and this is the
    # work of a job of known length that has the same Gittins index; 0: it is ordered by iterations.
    order_work: float = 0.0
    estimate_s: float = 0.0  # how long the user thinks it takes alone; 0: not said
    command: tuple[str, ...] = ()
    kind: str = ""  # by which its needs and company are remembered; empty: by its command alone
    trial: bool = False  # it may also be tried on one device, whatever its sizes
    resumable: bool = True  # it can be stopped and go on where it was, or be given another size
    preemptible: bool = True  # else what it has is not taken from it for others, nor added to
    pauses: tuple[Pause, ...] = ()  # in traces: how it can be paused; live its attempt says so
    # Of each node that it runs on, all its processes there together; 0: it does not say.
    host_memory_gib: float = 0.0
    host_cores: float = 0.0
    device_memory_gib: float = 0.0  # of each device, as its user says; 0: it does not say
    exclusive: bool = False  # it shares its devices with no other job
    # The jobs beside which it ran out of device memory, until it has run again.
    ousted_by: tuple[JobId, ...] = ()
    # Which types of device it may use (device_types.py); empty: its user did not say.
    device_types: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()  # the only ones that it may use; empty: any

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidInputError("a job needs an id")
        if not (isfinite(self.iterations) and self.iterations > 0):
            raise InvalidInputError(
                f"job {self.id} has {self.iterations:g} of work; expected a number above 0"
            )
        if not (isfinite(self.order_work) and self.order_work >= 0):
            raise InvalidInputError(
                f"job {self.id} is ordered by {self.order_work:g} of work; expected 0 or more"
            )
        sizes = self.sizes
        ascending = len(sizes) == 1 or all(a < b for a, b in pairwise(sizes))
        if not sizes or sizes[0] < 1 or not ascending:
            raise InvalidInputError(
                f"job {self.id} asks for sizes {sizes}; expected ascending numbers from 1"
            )
        if self.asked == 0:
            object.__setattr__(self, "asked", sizes[-1])
        elif self.asked not in sizes:
            raise InvalidInputError(f"job {self.id} asks for {self.asked}, not one of {sizes}")

    @property
    def elastic(self) -> bool:
        return len(self.sizes) > 1

    @property
    def gives_way(self) -> bool:
        """It may be stopped for others, and goes on later where it was."""
        return self.resumable and self.preemptible

    def runs_on(self, size: int) -> bool:
        """Whether so many devices may be given to it."""
        return size in self.sizes or (size == 1 and self.trial)


class Job(NamedTuple):
    """Where a job stands: one immutable row, replaced by the Scheduler on every fact and order.

    A tuple and not a dataclass: rows are replaced several times an event, and `_replace` takes
    1.9 microseconds where `dataclasses.replace` on a frozen row takes 7.1.
    """

    spec: JobSpec
    sequence: int  # order of arrival, from 0
    phase: Phase
    submitted_at: float
    since_at: float  # when it entered its phase; while it waits: when it last could start
    allocation: Allocation | None = None  # what it holds or is about to; None while it waits
    iterations_done: float = 0.0  # as of observed_at
    iterations_per_s: float = 0.0  # as reported by the engine; 0 unless RUNNING
    observed_at: float = 0.0
    held_s: float = 0.0  # seconds with devices, as of observed_at
    service_s: float = 0.0  # device-seconds, as of observed_at
    action: int = -1  # id of the newest order about this job
    attempt: int = -1  # id of the Start that began the present hold; older reports are stale
    begun_at: float = 0.0  # when the present hold began
    last_wait_s: float = 0.0  # how long it waited before the present hold
    starts: int = 0
    failures: int = 0
    ready_at: float = 0.0  # after a failure: when another try makes sense
    avoid: tuple[str, ...] = ()  # after a failure: nodes and devices where it makes none
    # Since when the training of the present attempt is over: it is about to end by itself.
    over_at: float | None = None
    waited_s: float = 0.0  # in the queue, the present wait not counted; nor is time while blocked
    only_on: tuple[str, ...] = ()  # the nodes to which it is bound; empty: it can run anywhere
    only_because: str = ""  # what binds it; empty: its spec, or nothing does
    failed_on: tuple[str, ...] = ()  # devices of the attempt that failed last, until the next start
    grow_at: float = 0.0  # it could not be given more devices: when another try makes sense
    # The nodes that see its checkpoints; empty: all, or there are none. It is bound to them unless
    # all of them are lost.
    kept_on: tuple[str, ...] = ()
    pauses: tuple[Pause, ...] = ()  # how the present attempt can be paused, as it announced
    # Only in what policies see, to whom a paused job waits: where it can go on, and nowhere else.
    parked: Allocation | None = None
    pause_as: Pause | None = None  # it is starting, and is paused so once it runs

    @property
    def id(self) -> JobId:
        return self.spec.id

    @property
    def size(self) -> int:
        """How many devices it holds; a paused job holds none."""
        held = self.allocation
        return 0 if held is None or held.paused else len(held.devices)

    @property
    def attempt_size(self) -> int:
        """How many devices its attempt runs on; a paused one is to have them again."""
        return 0 if self.allocation is None else len(self.allocation.devices)

    def kept(self, nodes: tuple[str, ...]) -> "Job":
        """With its checkpoints on these nodes alone; none: all nodes see them."""
        because = CHECKPOINTS if nodes else ""
        return self._replace(kept_on=nodes, only_on=nodes or self.spec.nodes, only_because=because)

    def let_go(self) -> "Job":
        """By the nodes that had its checkpoints, which are lost: it starts over elsewhere."""
        lost = self.kept_on and self.allocation is None
        return self._replace(
            only_on=self.spec.nodes,
            only_because="",
            iterations_done=0.0 if lost else self.iterations_done,
        )

    @property
    def starts_over(self) -> bool:
        """Whether its checkpoints are on nodes that are lost."""
        return bool(self.kept_on) and self.only_because != CHECKPOINTS

    def least(self, *, resizes: bool) -> int:
        """The devices that a policy must give it: as few as it can use, if the policy resizes."""
        if self.parked is not None:
            return len(self.parked.devices)
        return self.spec.sizes[0] if resizes else self.size or self.spec.asked

    def iterations_at(self, now: float) -> float:
        """Work done, carried forward at the last reported speed and never past the end."""
        done = self.iterations_done + self.iterations_per_s * (now - self.observed_at)
        return min(done, self.spec.iterations)

    def remaining_at(self, now: float) -> float:
        """Work that is left: of a job whose length is not known, the mean.

        Reservations, backfill and whatever asks when a job will be gone read this.
        """
        return self.spec.iterations - self.iterations_at(now)

    def order_at(self, now: float) -> float:
        """Work that is left, by which policies order jobs.

        Of a job that never ran it may be less than the mean: where a few jobs take days, the mean
        puts each that is unknown behind all that have hours left, though most end within minutes.
        """
        if self.spec.order_work and not self.starts:
            return self.spec.order_work
        return self.remaining_at(now)

    def held_at(self, now: float) -> float:
        """Seconds it has held devices, now included."""
        held = self.allocation
        return self.held_s if held is None or held.paused else self.held_s + now - self.observed_at

    def waited_at(self, now: float) -> float:
        """Seconds that it has waited in all, now included; a short run does not start it again."""
        waits = self.phase is Phase.WAITING or self.phase is Phase.PAUSED
        return self.waited_s + now - self.since_at if waits else self.waited_s

    def service_at(self, now: float) -> float:
        """Device-seconds it has been given, now included. It never falls."""
        if self.allocation is None:
            return self.service_s
        return self.service_s + self.size * (now - self.observed_at)

    def given(
        self, phase: Phase, allocation: Allocation, action: int, now: float, speed: float = 0.0
    ) -> "Job":
        """The same job, which waited, as an order to start leaves it."""
        # By name and in full: it takes 0.4 of the time of slices of the row, or of `_replace`.
        (spec, sequence, _, submitted_at, since_at, _, done, _, _, held_s, service_s) = self[:11]
        starts, failures, ready_at, avoid, _, waited_s, only_on, only_because = self[15:23]
        last_wait_s = now - since_at
        row = (
            *(spec, sequence, phase, submitted_at, now, allocation, done, speed, now),
            *(held_s, service_s, action, action, now, last_wait_s, starts + 1),
            *(failures, ready_at, avoid, None, waited_s + last_wait_s, only_on, only_because),
            *((), 0.0, self.kept_on, (), None, None),
        )
        return tuple.__new__(Job, row)

    def moved(self, phase: Phase, allocation: Allocation | None, action: int, now: float) -> "Job":
        """The same job, which held devices, as an order to stop or to change leaves it."""
        counts = (self.held_at(now), self.service_at(now))
        row = (*self[:2], phase, self.submitted_at, now, allocation, self.iterations_at(now), 0.0)
        return tuple.__new__(Job, (*row, now, *counts, action, *self[12:]))

    def started(self, phase: Phase, done: float, speed: float, now: float) -> "Job":
        """The same job, brought up to now, once it reports that it runs."""
        row = (*self[:2], phase, self.submitted_at, now, self.allocation, done, speed)
        return tuple.__new__(Job, (*row, *self[8:]))

    def progressed(self, iterations_done: float, iterations_per_s: float, now: float) -> "Job":
        """The same job as a report of progress shows it; the most frequent fact of all."""
        held_s, service_s = self.held_s, self.service_s
        if self.allocation is not None:
            held_s = held_s + now - self.observed_at
            service_s += len(self.allocation.devices) * (now - self.observed_at)
        moved = (iterations_done, iterations_per_s, now, held_s, service_s)
        return tuple.__new__(Job, (*self[:6], *moved, *self[11:]))  # `_make` takes twice as long

    def waiting_on(self, parked: Allocation) -> "Job":
        """A paused job as policies see it: it waits for these devices."""
        return self._replace(phase=Phase.WAITING, allocation=None, parked=parked)

    def settled(self, now: float) -> Self:
        """The same job with every running count brought up to now."""
        if self.allocation is None:
            return self._replace(observed_at=now)
        return self._replace(
            iterations_done=self.iterations_at(now),
            held_s=self.held_at(now),
            service_s=self.service_at(now),
            observed_at=now,
        )
