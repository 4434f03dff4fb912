"""The live loop, driven by hand: a clock that the test moves and an inbox that it fills."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.unit.stories import Told, on
from treadle.control.jobs import Fact, LastWords
from treadle.control.loop.controller import Controller
from treadle.core.actions import Action, Start
from treadle.core.attempt import How
from treadle.core.cluster import Cluster
from treadle.core.events import AttemptEnded, Event, JobFinished, JobStarted, JobSubmitted, NodeLost
from treadle.core.scheduler import Scheduler
from treadle.core.snapshot import KEEP, Schedule
from treadle.testing.builders import job
from treadle.testing.clocks import ManualClock


class Obedient:
    """An engine that writes its orders down."""

    def __init__(self) -> None:
        self.orders: list[Action] = []

    async def carry_out(self, actions: Sequence[Action]) -> None:
        self.orders += actions


class Bridge:
    """A controller with everything it needs, and a record of its steps."""

    def __init__(self, *answers: Schedule | Exception) -> None:
        self.policy = Told(*answers)
        self.engine, self.clock = Obedient(), ManualClock()
        self.inbox: asyncio.Queue[Event | None] = asyncio.Queue()
        self.errors: list[str] = []
        self.steps: list[tuple[float, list[str], list[Action]]] = []
        self.scheduler = Scheduler(self.policy, Cluster.grid(2, 2))
        self.controller = Controller(
            self.scheduler,
            self.engine,
            self.clock,
            self.inbox,
            observers=(self._observe,),
            on_error=lambda now, error: self.errors.append(f"{now:g} {error!r}"),
        )

    def _observe(
        self, now: float, events: Sequence[Event], actions: Sequence[Action], scheduler: Scheduler
    ) -> None:
        self.steps.append((now, [type(event).__name__ for event in events], list(actions)))

    def tell(self, *events: Event) -> None:
        for event in events:
            self.inbox.put_nowait(event)

    async def settle(self) -> None:
        """Let the loop do everything it can without time passing."""
        for _ in range(20):
            await asyncio.sleep(0)


def live(bridge: Bridge, story: Callable[[], Awaitable[None]]) -> None:
    """Run a story beside the controller; whatever stops the controller is raised."""

    async def both() -> None:
        loop = asyncio.ensure_future(bridge.controller.run())
        await bridge.settle()
        await story()
        assert not loop.done(), "the controller has stopped"
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(asyncio.wait_for(both(), 10.0))


def test_facts_become_orders_and_are_observed() -> None:
    bridge = Bridge(Schedule({"a": on(0)}))

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        assert bridge.engine.orders == [Start(0, "a", on(0))]
        assert bridge.steps == [(0.0, ["JobSubmitted"], [Start(0, "a", on(0))])]

    live(bridge, story)


def test_everything_in_the_inbox_is_drained_before_a_decision() -> None:
    bridge = Bridge()
    bridge.tell(*(JobSubmitted(job(name)) for name in "abc"))

    async def story() -> None:
        assert bridge.steps == [(0.0, ["JobSubmitted"] * 3, [])]
        assert bridge.policy.asked_at == [0.0]

    live(bridge, story)


def test_what_arrives_together_with_what_woke_the_loop_is_drained_too() -> None:
    bridge = Bridge()

    async def story() -> None:
        bridge.tell(*(JobSubmitted(job(name)) for name in "abc"))
        await bridge.settle()
        assert [kinds for _, kinds, _ in bridge.steps] == [["JobSubmitted"] * 3]

    live(bridge, story)


def test_the_alarm_wakes_the_loop_when_nothing_arrives() -> None:
    bridge = Bridge(Schedule({}, valid_until=30.0), Schedule({"a": on(1)}))

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        bridge.clock.advance(29.0)
        await bridge.settle()
        assert bridge.policy.asked_at == [0.0]
        bridge.clock.advance(30.0)
        await bridge.settle()
        assert bridge.policy.asked_at == [0.0, 30.0]
        assert bridge.engine.orders == [Start(0, "a", on(1))]

    live(bridge, story)


def test_an_alarm_that_is_overdue_does_not_keep_facts_waiting() -> None:
    bridge = Bridge(Schedule({}, valid_until=5.0), KEEP)

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        bridge.tell(JobSubmitted(job("b")))
        bridge.clock.advance(9.0)
        await bridge.settle()
        assert bridge.steps[1:] == [(9.0, ["JobSubmitted"], [])]
        assert bridge.policy.asked_at == [0.0, 9.0]

    live(bridge, story)


def test_an_event_at_the_moment_of_the_alarm_is_not_lost() -> None:
    bridge = Bridge(Schedule({}, valid_until=5.0), KEEP)

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        bridge.clock.advance(5.0)
        bridge.tell(JobSubmitted(job("b")))
        await bridge.settle()
        assert set(bridge.scheduler.jobs) == {"a", "b"}
        assert bridge.inbox.empty()

    live(bridge, story)


def test_a_policys_mistake_is_reported_and_jobs_run_on() -> None:
    """1. a runs.  2. The policy fails on b's arrival.  3. b starts at the next occasion."""
    bridge = Bridge(Schedule({"a": on(0)}), RuntimeError("oops"), Schedule({"b": on(1)}))

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        bridge.tell(JobStarted("a", 0, 0.0, 1.0))
        bridge.clock.advance(3.0)
        bridge.tell(JobSubmitted(job("b")))
        await bridge.settle()
        assert bridge.errors == ["3 RuntimeError('oops')"]
        assert [row.phase for row in bridge.scheduler.jobs.values()] == ["running", "waiting"]
        bridge.tell(JobSubmitted(job("c")))
        await bridge.settle()
        assert bridge.engine.orders == [Start(0, "a", on(0)), Start(1, "b", on(1))]

    live(bridge, story)


def test_what_needs_no_policy_is_ordered_even_if_the_policy_fails() -> None:
    bridge = Bridge(Schedule({"a": on(0)}), RuntimeError("oops"))

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        bridge.tell(NodeLost("n0"))
        await bridge.settle()
        assert [type(order).__name__ for order in bridge.engine.orders] == ["Start", "Stop"]

    live(bridge, story)


def test_a_fact_that_changes_nothing_does_not_ask_the_policy() -> None:
    bridge = Bridge(Schedule({"a": on(0)}))

    async def story() -> None:
        bridge.tell(JobSubmitted(job("a")))
        await bridge.settle()
        bridge.tell(JobStarted("a", 0, 0.0, 1.0))
        await bridge.settle()
        assert bridge.policy.asked_at == [0.0]
        bridge.tell(JobFinished("a", 0))
        await bridge.settle()
        assert bridge.policy.asked_at == [0.0, 0.0]

    live(bridge, story)


class Reading:
    """Steps of which the output of all ends is read at the same time, or of none."""

    def __init__(self, ends: int) -> None:
        self.together = asyncio.Barrier(ends)
        self.completed: list[tuple[str, bytes, int]] = []  # job, its output, facts before it
        self.committed: list[Fact] = []

    async def read(self, ended: AttemptEnded) -> LastWords:
        await self.together.wait()
        return LastWords(tail=ended.job.encode())

    def complete(
        self, ended: AttemptEnded, words: LastWords, earlier: Sequence[Fact]
    ) -> list[Fact]:
        self.completed.append((ended.job, words.tail, len(earlier)))
        return [ended]

    def apply(self, now: float, facts: Sequence[Fact], actions: Sequence[Action]) -> None:
        self.committed += facts

    async def settle(self) -> None:
        pass

    def abandon(self, error: Exception) -> None:
        raise error


def test_the_output_of_ends_that_come_together_is_read_at_once_and_taken_in_their_order() -> None:
    """One after another, the first would be waited for in vain. A node that answers late delays
    the others once."""
    bridge, steps = Bridge(), Reading(3)
    bridge.controller._steps = steps
    ends = [AttemptEnded(name, 0, 1, How.EXITED, 1) for name in "abc"]

    async def story() -> None:
        bridge.tell(ends[0], NodeLost("n0"), *ends[1:])
        for _ in range(10):
            await bridge.settle()
        assert steps.completed == [("a", b"a", 0), ("b", b"b", 2), ("c", b"c", 3)]
        assert steps.committed == [ends[0], NodeLost("n0"), *ends[1:]]

    live(bridge, story)
