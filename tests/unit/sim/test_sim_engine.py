"""The engine of arithmetic: when things end, what restarts and sharing cost, what faults undo."""

from math import inf

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.allocation import Allocation
from treadle.core.cluster import Cluster, Device
from treadle.core.events import (
    Event,
    JobFailed,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobStopped,
    JobSubmitted,
    NodeJoined,
    NodeLost,
)
from treadle.core.job import JobSpec
from treadle.models.scaling import Effects, ScalingModel
from treadle.sim.costs import Constant
from treadle.sim.engine import SimulatedEngine
from treadle.sim.faults import Faults, FaultSettings
from treadle.testing.builders import job


def on(*numbers: int, turn: int = 0, node: str = "n0") -> Allocation:
    return Allocation(tuple(Device(node, number) for number in numbers), turn=turn)


class Fated(Faults):
    """Job failures and node losses that the test writes down."""

    def __init__(
        self,
        *,
        fails_after_s: tuple[float, ...] = (),
        nodes: tuple[tuple[float, NodeLost | NodeJoined], ...] = (),
        checkpoint_every_s: float = 5.0,
    ) -> None:
        super().__init__(FaultSettings(checkpoint_every_s=checkpoint_every_s))
        self.fails_after_s = fails_after_s
        self.asked: list[tuple[str, int]] = []
        self._coming = list(nodes)
        self.next_at = nodes[0][0] if nodes else inf

    def fork(self) -> "Fated":
        return self

    def strikes(self, spec: JobSpec, attempt: int, now: float) -> tuple[float, str]:
        self.asked.append((spec.id, attempt))
        if attempt > len(self.fails_after_s):
            return inf, ""
        return now + self.fails_after_s[attempt - 1], "written"

    def due(self, now: float) -> list[NodeLost | NodeJoined]:
        events = [event for at, event in self._coming if at <= now]
        self._coming = [(at, event) for at, event in self._coming if at > now]
        self.next_at = self._coming[0][0] if self._coming else inf
        return events


class World:
    """An engine that is given orders at moments and asked what happened."""

    def __init__(
        self,
        *jobs: JobSpec,
        cost_s: float = 0.0,
        effects: Effects | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.engine = SimulatedEngine(
            jobs,
            ScalingModel(effects or Effects()),
            cost=Constant(cost_s),
            faults=faults or Faults(FaultSettings()),
        )

    def order(self, now: float, *actions: Action) -> list[Event]:
        """Everything up to now, then the orders, then what they cause at once."""
        before = self.until(now)
        self.engine.carry_out(actions, now)
        return before + self.until(now)

    def until(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self.engine.next_at <= now:
            moment = self.engine.next_at
            events += [e for e in self.engine.due(moment) if not isinstance(e, JobSubmitted)]
        return events


def test_a_jobs_end_is_exact() -> None:
    world = World(job("a", length_s=10.0))
    assert world.order(0.5, Start(0, "a", on(0))) == [JobStarted("a", 0, 0.0, 1.0)]
    assert world.engine.next_at == 10.5
    assert world.until(10.4) == []
    assert world.until(10.5) == [JobFinished("a", 0)]
    assert world.engine.next_at == inf


def test_the_first_start_is_free_and_every_other_costs() -> None:
    """Runs 0 to 4, is started again at 6 and runs from 9 on: 6 s are left."""
    world = World(job("a", length_s=10.0), cost_s=3.0)
    world.order(0.0, Start(0, "a", on(0)))
    assert world.order(4.0, Stop(1, "a")) == [JobStopped("a", 1, 4.0)]
    assert world.order(6.0, Start(2, "a", on(1))) == []
    assert world.until(9.0) == [JobStarted("a", 2, 4.0, 1.0)]
    assert world.until(14.9) == []
    assert world.until(15.0) == [JobFinished("a", 2)]


def test_a_change_costs_a_restart() -> None:
    """At two devices it is twice as fast: 4 s done, 3 s of restart, 3 s for the other 6."""
    world = World(job("a", size=1, sizes=(1, 2), length_s=10.0), cost_s=3.0)
    world.order(0.0, Start(0, "a", on(0)))
    assert world.order(4.0, Change(1, "a", on(0, 1))) == []
    assert world.until(7.0) == [JobStarted("a", 1, 4.0, 2.0)]
    assert world.until(10.0) == [JobFinished("a", 1)]


def test_a_job_that_is_stopped_while_it_restarts_has_made_no_progress() -> None:
    world = World(job("a", length_s=10.0), cost_s=3.0)
    world.order(0.0, Start(0, "a", on(0)))
    world.order(4.0, Stop(1, "a"))
    world.order(6.0, Start(2, "a", on(0)))
    assert world.order(8.0, Stop(3, "a")) == [JobStopped("a", 3, 4.0)]
    assert world.until(100.0) == []


def test_an_order_to_a_job_that_has_ended_is_answered_by_its_end() -> None:
    world = World(job("a", length_s=10.0))
    world.order(0.0, Start(0, "a", on(0)))
    world.until(10.0)
    assert world.order(10.0, Stop(1, "a")) == []
    assert world.order(10.0, Change(2, "a", on(1))) == []


def test_two_turns_on_a_device_slow_each_other_down_and_say_so() -> None:
    """a runs alone to 4; then both run at half speed; b needs 6 s for its 3 and leaves at 10,
    when a has 7 of its 10 and runs on alone.
    """
    world = World(job("a", length_s=10.0), job("b", length_s=3.0), effects=Effects(shared=0.5))
    world.order(0.0, Start(0, "a", on(0)))
    assert world.order(4.0, Start(1, "b", on(0, turn=1))) == [
        JobStarted("b", 1, 0.0, 0.5),
        JobProgressed("a", 0, 4.0, 0.5),
    ]
    assert world.until(10.0) == [JobFinished("b", 1), JobProgressed("a", 0, 7.0, 1.0)]
    assert world.until(13.0) == [JobFinished("a", 0)]


def test_moving_away_from_a_shared_device_frees_both() -> None:
    world = World(job("a", length_s=10.0), job("b", length_s=10.0), effects=Effects(shared=0.5))
    world.order(0.0, Start(0, "a", on(0)), Start(1, "b", on(0, turn=1)))
    assert world.order(4.0, Change(2, "b", on(1))) == [
        JobStarted("b", 2, 2.0, 1.0),
        JobProgressed("a", 0, 2.0, 1.0),
    ]


def test_a_job_that_fails_falls_back_to_its_checkpoint_and_can_be_tried_again() -> None:
    """Fails 8 s into its first attempt; checkpoints lie 5 s apart; the second goes through."""
    faults = Fated(fails_after_s=(8.0,))
    world = World(job("a", length_s=10.0), faults=faults, cost_s=1.0)
    world.order(0.0, Start(0, "a", on(0)))
    assert world.until(9.0) == [JobFailed("a", 0, 5.0, "written")]
    world.order(9.0, Start(1, "a", on(0)))
    assert world.until(10.0) == [JobStarted("a", 1, 5.0, 1.0)]
    assert world.until(15.0) == [JobFinished("a", 1)]
    assert faults.asked == [("a", 1), ("a", 2)]


def test_stops_and_changes_neither_cure_a_fault_nor_put_it_off() -> None:
    """Fails after 8 s of running: 3 s, stopped, 2 s, moved, and 3 s more."""
    faults = Fated(fails_after_s=(8.0,))
    world = World(job("a", length_s=20.0), faults=faults)
    world.order(0.0, Start(0, "a", on(0)))
    world.order(3.0, Stop(1, "a"))
    world.order(50.0, Start(2, "a", on(0)))
    world.order(52.0, Change(3, "a", on(1)))
    assert world.until(54.9) == []
    assert world.until(55.0) == [JobFailed("a", 3, 5.0, "written")]
    assert faults.asked == [("a", 1)]


def test_a_job_on_a_lost_node_falls_back_to_its_checkpoint_and_stands_still() -> None:
    """At 12 s it has done 12, the last checkpoint was at 10; at 13 it is ordered to stop."""
    faults = Fated(nodes=((12.0, NodeLost("n0")),))
    world = World(job("a", length_s=20.0), job("b", length_s=20.0), faults=faults)
    world.order(0.0, Start(0, "a", on(0)), Start(1, "b", on(0, node="n1")))
    assert world.until(12.0) == [NodeLost("n0")]
    assert world.order(13.0, Stop(2, "a")) == [JobStopped("a", 2, 10.0)]
    world.order(14.0, Start(3, "a", on(1, node="n1")))
    assert world.until(20.0) == [JobFinished("b", 1)]
    assert world.until(24.0) == [JobFinished("a", 3)]


def test_with_nothing_to_run_only_a_node_that_returns_is_worth_waiting_for() -> None:
    settings = FaultSettings(seed=1, node_mtbf_s=100.0, node_repair_s=7.0)
    engine = SimulatedEngine([], ScalingModel(), faults=Faults(settings, Cluster.grid(1, 1)))
    assert engine.next_at == inf, "that an idle node is lost some day concerns no job"
    lost_at = engine._faults.next_at
    assert engine.due(lost_at) == [NodeLost("n0")]
    assert engine.next_at == lost_at + 7.0


def test_a_fork_goes_its_own_way() -> None:
    settings = FaultSettings(seed=1, node_mtbf_s=1000.0, checkpoint_every_s=1.0)
    cluster = Cluster.grid(2, 4)
    engine = SimulatedEngine(
        [job("a", length_s=10.0), job("b", length_s=10.0), job("c", at=50.0)],
        ScalingModel.on(cluster, Effects(shared=0.5)),
        faults=Faults(settings, cluster),
    )
    world, twin = World(), World()
    world.engine = engine
    world.order(0.0, Start(0, "a", on(0)), Start(1, "b", on(0, turn=1)))
    world.order(2.0, Stop(2, "b"))
    twin.engine = engine.fork()
    gone = world.order(3.0, Stop(3, "a"), Start(4, "b", on(3)))
    assert gone == [JobStopped("a", 3, 2.0), JobStarted("b", 4, 1.0, 1.0)]
    assert twin.until(11.0) == [JobFinished("a", 0)], "9 s from 2 s on: half of 2 was done"
    assert twin.order(11.0, Start(3, "b", on(0))) == [JobStarted("b", 3, 1.0, 1.0)]
    assert world.engine.fork().next_at == world.engine.next_at
    assert world.until(12.0) == [JobFinished("b", 4)]
