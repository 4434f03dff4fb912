"""After any sequence of facts, late and repeated ones too, the scheduler's state is consistent."""

from dataclasses import replace
from types import MappingProxyType

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from treadle.core.actions import Action, Start, Stop
from treadle.core.allocation import Allocation, Pause
from treadle.core.cluster import Cluster, Device, Node
from treadle.core.events import (
    DeviceClosed,
    DeviceOpened,
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobHeld,
    JobPaused,
    JobProgressed,
    JobReleased,
    JobStarted,
    JobStopped,
    JobSubmitted,
    JobUpdated,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import Job
from treadle.core.lifecycle import TRANSITIONS, Phase
from treadle.core.ports import Policy
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import Schedule, Snapshot
from treadle.journal.codec import decode, encode
from treadle.policies.wrappers.wrapper import Wrapper
from treadle.testing.builders import job, policy
from treadle.testing.checks import check

POLICIES = ["fifo", "backfill", "srtf", "las", "tiresias?limits=3:8", "max-min?quantum_s=3"]
POLICIES += ["afs", "srtf+live?restart_s=0.5"]
PAUSES = st.sampled_from([(), (Pause.FROZEN,), (Pause.FROZEN, Pause.SUSPENDED)])
_ON_THE_WAY = (Phase.STARTING, Phase.STOPPING, Phase.CANCELLING)
REACHABLE = {(start, end) for (start, _), end in TRANSITIONS.items()}


class Pausing(Wrapper):
    """Pauses jobs that it would stop where it can, and lets them go on where they were."""

    def decide(self, snapshot: Snapshot) -> Schedule:
        schedule = self.inner.decide(snapshot)
        kept: dict[str, Allocation | None] = {}
        for name, new in schedule.changes.items():
            job = snapshot.jobs[name]
            held = job.allocation
            if new is None and held is not None and job.pauses and job.phase is Phase.RUNNING:
                kept[name] = held.as_paused(job.pauses[-1])
            elif job.parked is not None:
                if snapshot.free.holds(job.parked.devices):
                    kept = {job.id: job.parked.as_paused(None)}
                    return Schedule(kept, schedule.valid_until)
            else:
                kept[name] = new
        return Schedule(kept, schedule.valid_until)


def chosen(name: str) -> Policy:
    plain = name.removeprefix("paused ")
    return policy(name) if plain == name else Pausing(policy(plain))


class Rows(dict[str, Job]):
    """The scheduler's rows; every single change of a phase must stand in the table."""

    def __setitem__(self, identity: str, row: Job) -> None:
        before = self.get(identity)
        if before is None:
            assert row.phase is Phase.WAITING, f"{identity} began as {row.phase}"
        elif before.phase is not row.phase:
            step = (before.phase, row.phase)
            assert step in REACHABLE, f"{identity} went from {step[0]} to {step[1]}"
        super().__setitem__(identity, row)


class World(RuleBasedStateMachine):
    """Draws facts in any order: engines are late, repeat themselves and lose nodes."""

    @initialize(name=st.sampled_from(POLICIES))
    def begin(self, name: str) -> None:
        self.cluster = Cluster.grid(3, 2)
        self.scheduler = Scheduler(chosen(name), self.cluster)
        self.scheduler.rows = Rows()
        self.scheduler.jobs = MappingProxyType(self.scheduler.rows)
        self.replayed = Scheduler(chosen(name), self.cluster)
        self.now = 0.0
        self.count = 0
        self.orders: list[Action] = []
        self.seen: list[Event] = []
        self.service: dict[str, float] = {}
        self.decided = 0
        self.uses: dict[str, set[tuple[object, int]]] = {}

    def tell(self, *events: Event) -> None:
        for event in events:
            self._let_go(event)
        actions = self.scheduler.step(events, self.now)
        self._follow_devices(actions)
        self.orders += actions
        self.seen += events
        self._replay(list(events), actions)

    def _replay(self, events: list[Event], actions: list[Action]) -> None:
        asked = self.scheduler.decisions != self.decided
        self.decided = self.scheduler.decisions
        lines = [decode(encode(self.now, line))[1] for line in (*events, *actions)]
        self.replayed.replay(
            lines[: len(events)],  # type: ignore[arg-type]
            lines[len(events) :],  # type: ignore[arg-type]
            self.now,
            wake_at=self.scheduler.wake_at if asked else None,
        )

    @rule(size=st.integers(1, 6), length=st.integers(1, 9), retries=st.integers(0, 1))
    def submit(self, size: int, length: int, retries: int) -> None:
        self.count += 1
        spec = job(
            f"j{self.count}", size=size, length_s=float(length), at=self.now, retries=retries
        )
        self.tell(JobSubmitted(spec))

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.tell()

    @precondition(lambda self: self.orders)
    @rule(
        data=st.data(),
        share=st.floats(0, 1),
        pauses=PAUSES,
        how=st.sampled_from(Pause),
        refused=st.sampled_from(["", "", "no"]),
    )
    def answer(
        self, data: st.DataObject, share: float, pauses: tuple[Pause, ...], how: Pause, refused: str
    ) -> None:
        """Report on any order ever given: the newest, a stale one, the same one again."""
        action = data.draw(st.sampled_from(self.orders))
        row = self.scheduler.jobs.get(action.job)
        work = share * (row.spec.iterations if row is not None else 1.0)
        reports: list[Event] = [JobStopped(action.job, action.id, work)]
        if not isinstance(action, Stop):
            reports += [
                JobStarted(action.job, action.id, work, 1.0, pauses=pauses, refused=refused),
                JobPaused(action.job, action.id, how, refused=refused),
                JobProgressed(action.job, action.id, work, 0.5),
                JobFinished(action.job, action.id),
                JobFailed(action.job, action.id, work, "oops"),
            ]
        self.tell(data.draw(st.sampled_from(reports)))

    @precondition(lambda self: self.orders)
    @rule(pauses=PAUSES, able=st.sampled_from([True, True, False]))
    def obey(self, pauses: tuple[Pause, ...], able: bool) -> None:
        """Report that all newest orders were carried out, or that those to pause could not be."""
        newest = {order.job: order for order in self.orders}
        for order in newest.values():
            if not _is_owed(row := self.scheduler.jobs.get(order.job), order):
                continue
            assert row is not None, "it is owed"
            done = row.iterations_done
            if isinstance(order, Stop):
                self.tell(JobStopped(order.job, order.id, done))
            elif not order.allocation.paused or not able:
                refused = "it cannot be paused" if order.allocation.paused else ""
                started = JobStarted(order.job, order.id, done, 1.0, pauses=pauses, refused=refused)
                self.tell(started)
            else:
                self.tell(JobPaused(order.job, order.id, order.allocation.paused))

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.seen))
        if not isinstance(event, JobSubmitted | NodeJoined | NodeLost | NodeDrained):
            self.tell(event)

    @precondition(lambda self: self.count)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.tell(JobCancelled(f"j{data.draw(st.integers(1, self.count))}"))

    @precondition(lambda self: self.count)
    @rule(
        data=st.data(),
        reason=st.sampled_from(["user", "dependency"]),
        how=st.sampled_from([None, *Pause]),
        free=st.booleans(),
    )
    def hold(self, data: st.DataObject, reason: str, how: Pause | None, free: bool) -> None:
        name = f"j{data.draw(st.integers(1, self.count))}"
        self.tell(JobReleased(name, reason) if free else JobHeld(name, reason, how))

    @precondition(lambda self: self.scheduler.jobs)
    @rule(data=st.data(), how=st.sampled_from(Pause))
    def pause(self, data: st.DataObject, how: Pause) -> None:
        """Pause or resume a job that can be."""
        able = [name for name, row in self.scheduler.jobs.items() if row.pauses]
        if able:
            name = data.draw(st.sampled_from(able))
            held = "user" in self.scheduler.blocked.get(name, ())
            self.tell(JobReleased(name, "user") if held else JobHeld(name, "user", how))

    @precondition(lambda self: self.scheduler.jobs)
    @rule(data=st.data(), priority=st.integers(0, 2), longer=st.sampled_from([0.5, 1, 4]))
    def update(self, data: st.DataObject, priority: int, longer: float) -> None:
        row = self.scheduler.jobs[data.draw(st.sampled_from(sorted(self.scheduler.jobs)))]
        work = row.spec.iterations * longer
        self.tell(JobUpdated(replace(row.spec, priority=priority, iterations=work)))

    @rule(node=st.integers(0, 2), number=st.integers(0, 1), again=st.booleans())
    def close(self, node: int, number: int, again: bool) -> None:
        device = Device(f"n{node}", number)
        self.tell(DeviceOpened(device) if again else DeviceClosed(device, "somebody is there"))

    @precondition(lambda self: self.scheduler.cluster.nodes)
    @rule(data=st.data(), drain=st.booleans())
    def lose(self, data: st.DataObject, drain: bool) -> None:
        name = data.draw(st.sampled_from(self.scheduler.cluster.nodes)).name
        self.tell(NodeDrained(name) if drain else NodeLost(name))

    @rule(number=st.integers(0, 2))
    def join(self, number: int) -> None:
        name = f"n{number}"
        present = {node.name for node in self.scheduler.cluster.nodes}
        if name not in present:
            self.tell(NodeJoined(Node(name, 2)))

    @invariant()
    def books_are_in_order(self) -> None:
        if hasattr(self, "scheduler"):
            check(self.scheduler)

    @invariant()
    def attained_service_never_falls(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for identity, row in self.scheduler.jobs.items():
            service = row.service_at(self.now)
            assert service >= self.service.get(identity, 0.0)
            self.service[identity] = service

    @invariant()
    def a_replayed_scheduler_is_the_same(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        one, other = self.scheduler, self.replayed
        assert dict(one.jobs) == dict(other.jobs)
        assert one.tenancy.tenants == other.tenancy.tenants
        assert list(one.tenancy.free) == list(other.tenancy.free)
        assert one.unfit == other.unfit
        assert one.blocked == other.blocked
        assert one.closed == other.closed
        assert one.cluster == other.cluster
        assert one.wake_at == other.wake_at
        assert set(one.paused) == set(other.paused)
        queue = [identity for _, _, identity in one.ranking.queue]
        assert queue == [identity for _, _, identity in other.ranking.queue]

    @invariant()
    def the_state_can_be_restored(self) -> None:
        """A scheduler that is restored from its rows holds the same, and waits in the same order.

        Of equal ranks those that came earlier may come first again; everything else is equal.
        """
        if not hasattr(self, "scheduler"):
            return
        one = self.scheduler
        held = {
            d.node for row in one.jobs.values() if row.allocation for d in row.allocation.devices
        }
        if held - {node.name for node in one.cluster.nodes}:
            return  # Who is on a drained node must end first: the cluster has it no more.
        other = Scheduler(one.policy, one.cluster)
        kept = [one.kept(identity) for identity in one.jobs]
        other.restore(kept, one.closed, one.counters, self.now)
        check(other)
        assert dict(one.jobs) == dict(other.jobs)
        assert one.tenancy.tenants == other.tenancy.tenants
        assert (one.unfit, one.blocked, one.closed) == (other.unfit, other.blocked, other.closed)
        waiting = {identity for _, _, identity in one.ranking.queue}
        assert waiting == {identity for _, _, identity in other.ranking.queue}

    def _let_go(self, event: Event) -> None:
        """Keep the world's own book of who is physically on which device."""
        if isinstance(event, JobStarted):
            orders = [order for order in self.orders if order.job == event.job]
            newest = orders[-1]
            on_them = event.job in self.uses
            if on_them and newest.id == event.action and not isinstance(newest, Stop):
                self.uses[event.job] = _claims(newest)
        elif isinstance(event, JobPaused):
            orders = [order for order in self.orders if order.job == event.job]
            row = self.scheduler.jobs.get(event.job)  # It may be cancelled by now.
            if orders[-1].id == event.action and row is not None and row.pauses:
                self.uses.pop(event.job, None)
        elif isinstance(event, JobStopped | JobFinished | JobFailed):
            starts = [o.id for o in self.orders if o.job == event.job and isinstance(o, Start)]
            if starts and event.action >= starts[-1]:
                self.uses.pop(event.job, None)

    def _follow_devices(self, actions: list[Action]) -> None:
        """A device is given away only behind whoever is still on it."""
        for action in actions:
            if isinstance(action, Stop) or action.allocation.paused:
                continue
            wanted = _claims(action)
            on_them = {name for name, used in self.uses.items() if used & wanted}
            assert on_them - {action.job} <= set(action.after), f"{action} passes {on_them}"
            closed = self.scheduler.closed
            assert not any(device in closed for device in action.allocation.devices)
        for action in actions:
            self.uses[action.job] = self.uses.get(action.job, set()) | _claims(action)


def _is_owed(row: Job | None, order: Action) -> bool:
    """Whether an order about a job has no answer yet."""
    return row is not None and row.action == order.id and row.phase in _ON_THE_WAY


def _claims(action: Action) -> set[tuple[object, int]]:
    if isinstance(action, Stop) or action.allocation.paused:
        return set()
    return {(device, action.allocation.turn) for device in action.allocation.devices}


class PausedWorld(World):
    """The same where engines keep up with their orders, so that much is paused."""

    answer = repeat = update = hold = close = None  # type: ignore[assignment]

    @initialize(name=st.sampled_from(["paused srtf", "paused las", "srtf+live?restart_s=0.5"]))
    def begin(self, name: str) -> None:
        super().begin(name)

    @rule(size=st.integers(1, 4), length=st.integers(1, 9))
    def submit_and_start(self, size: int, length: int) -> None:
        self.submit(size, length, 0)
        self.obey((Pause.FROZEN,), able=True)


World.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
PausedWorld.TestCase.settings = World.TestCase.settings
TestWorld, TestPausedWorld = World.TestCase, PausedWorld.TestCase
