"""The memory engine keeps the contract of engines, and does what its commands say."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from treadle.core.actions import Action, Change, Start, Stop
from treadle.core.attempt import How
from treadle.core.cluster import Device, Node
from treadle.core.errors import InvalidInputError
from treadle.core.events import AttemptEnded, DeviceClosed, DeviceOpened, JobStarted
from treadle.core.launch import AttemptId
from treadle.core.lifecycle import Phase
from treadle.core.machine import DeviceOrder
from treadle.core.ports import Engine
from treadle.engines.memory import MemoryEngine, memory_engine
from treadle.engines.memory_world import MemoryWorld
from treadle.engines.registry import EngineContext, EngineOptions, engine_factory
from treadle.testing.clocks import ManualClock
from treadle.testing.engine_bench import EngineBench, Recorder, on, row
from treadle.testing.engine_contract import EngineContract

COMMANDS = {
    "short": ("true",),
    "long": ("forever",),
    "held": ("forever",),
    "slow": ("forever",),
    "talker": ("echo", "rank", "$RANK", "one", ";", "forever"),
    "flood": ("echo", "x" * 8191),
    "flexible": ("announce", "size", ";", "forever"),
    "missing": ("no-such-command",),
}


class MemoryBench(EngineBench):
    cannot: ClassVar = {
        "newcomers": "jobs in memory have no processes",
        "progress": "the controller fills in how far a job is",
        "reports": "jobs in memory say nothing",
    }

    def __init__(self) -> None:
        self.world = MemoryWorld.of(Node("n0", 3), Node("n1", 1))
        self.clock = ManualClock()
        super().__init__(COMMANDS)

    def make(self) -> Engine:
        self.memory = MemoryEngine(context(self.controls, self.clock), self.world)
        return self.memory

    async def clear_away(self) -> None:
        await self.engine.close()

    async def order(self, *actions: Action) -> None:
        if any(action.job == "slow" and not isinstance(action, Start) for action in actions):
            self.memory.hang("slow")
        await super().order(*actions)

    async def release(self, job: str, code: int = 0) -> None:
        if job == "slow":
            return self.memory.release("slow")
        if job == "talker":
            for rank in (0, 1):
                self.memory.write("talker", b"two\n", rank)
        return self.memory.finish(job, code)

    async def lose_node(self) -> str:
        await self.order(Start(0, "long", on("n1", 0)))
        await self.started("long", 0)
        self.memory.lose_node("n1")
        return "n1"

    async def return_node(self, name: str) -> None:
        self.memory.add_node(Node(name, 1))


class TestMemoryEngine(EngineContract):
    __test__ = True

    def bench(self) -> EngineBench:
        return MemoryBench()


def context(controls: Recorder, clock: ManualClock, **options: object) -> EngineContext:
    return EngineContext(
        controls=controls,
        clock=clock,
        root=Path("/nowhere"),
        options=EngineOptions(node_name="n0", **options),  # type: ignore[arg-type]
    )


class Trial:
    """An engine made by its factory, with one job `a` of a given command."""

    def __init__(self, *command: str) -> None:
        self.controls = Recorder({"a": command})
        self.clock = ManualClock()
        self.engine = memory_engine(context(self.controls, self.clock))

    async def start(self, number: int = 0) -> None:
        await self.engine.carry_out([Start(number, "a", on("n0", 0))])
        await self.settle()

    def second(self) -> MemoryEngine:
        """Another engine over the same world."""
        return MemoryEngine(context(self.controls, self.clock), self.engine.world)

    async def settle(self) -> None:
        """Let programs run until they sleep."""
        for _ in range(20):
            await asyncio.sleep(0)

    def ends(self) -> list[tuple[How, int | None]]:
        ends = [fact for fact in self.controls.facts if isinstance(fact, AttemptEnded)]
        return [(ended.how, ended.code) for ended in ends]

    async def output(self) -> bytes:
        return (await self.engine.output(AttemptId("a", 1), 0)).data


def tell(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20.0))


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["false"], 1),
        (["exit", "7"], 7),
        (["python", "train.py"], 0),
        (["echo", "x", ";", "exit", "3", ";", "forever"], 3),
        (["sh", "-c", "echo x; exit 4"], 4),
        (["sh", "-c", "echo 'x"], 2),
        (["sleep", "soon", ";", "exit", "nan"], 0),
        (["exit", "256"], 0),
    ],
)
def test_a_job_ends_as_its_command_says(command: Sequence[str], code: int):
    async def story() -> None:
        trial = Trial(*command)
        await trial.start()
        assert trial.ends() == [(How.EXITED, code)]

    tell(story)


def test_a_sequence_writes_and_sleeps_by_the_clock():
    async def story() -> None:
        trial = Trial("echo", "one", "two", ";", "sleep", "5", ";", "echo", "three")
        await trial.start()
        assert await trial.output() == b"one two\n"
        trial.clock.advance(4.9)
        await trial.settle()
        assert trial.ends() == []
        trial.clock.advance(5.0)
        await trial.settle()
        assert trial.ends() == [(How.EXITED, 0)]
        assert await trial.output() == b"one two\nthree\n"

    tell(story)


def test_a_sleep_goes_on_in_the_next_engine_as_if_it_had_not_paused():
    async def story() -> None:
        trial = Trial("sleep", "5")
        await trial.start()
        await trial.engine.close()
        trial.clock.advance(3.0)
        second = trial.second()
        await second.adopt([row("a", Phase.RUNNING, on("n0", 0))], [AttemptId("a", 1)])
        await trial.settle()
        trial.clock.advance(5.0)
        await trial.settle()
        assert trial.ends() == [(How.EXITED, 0)]

    tell(story)


def test_a_start_can_hang_until_it_is_released():
    async def story() -> None:
        trial = Trial("forever")
        trial.engine.hang("a")
        await trial.start()
        assert trial.controls.facts == []
        trial.engine.release("a")
        assert [type(fact) for fact in trial.controls.facts] == [JobStarted]
        await trial.engine.close()

    tell(story)


def test_manage_does_not_open_a_foreign_device():
    async def story() -> None:
        trial = Trial("true")
        device = Device("n0", 0)
        trial.engine.close_device(device, "foreign", "process 7 is on device n0:0")
        await trial.engine.order_device(device, DeviceOrder.AVOID)
        await trial.engine.order_device(device, DeviceOrder.MANAGE)
        causes = [fact.cause for fact in trial.controls.facts if isinstance(fact, DeviceClosed)]
        assert causes == ["foreign", "avoided", "foreign"]
        trial.engine.open_device(device)
        assert trial.controls.facts[3:] == [DeviceOpened(device)]

    tell(story)


def test_an_end_says_how_long_the_attempt_ran_since_its_start():
    """1. The start hangs for 5 s. 2. The job runs for 3 s, over a restart. 3. It is stopped."""

    async def story() -> None:
        trial = Trial("forever")
        trial.engine.hang("a")
        await trial.start()
        trial.clock.advance(5.0)
        trial.engine.release("a")
        await trial.settle()
        await trial.engine.close()
        trial.clock.advance(8.0)
        second = trial.second()
        await second.adopt([row("a", Phase.RUNNING, on("n0", 0))], [AttemptId("a", 1)])
        await second.carry_out([Stop(1, "a")])
        (ended,) = [fact for fact in trial.controls.facts if isinstance(fact, AttemptEnded)]
        assert (ended.started_at, ended.ended_at, ended.ran_s) == (None, None, 3.0)

    tell(story)


def test_the_factory_takes_a_number_of_devices_and_no_gpus():
    async def story() -> None:
        controls, clock = Recorder({}), ManualClock()
        make = engine_factory("memory")
        assert make(context(controls, clock)).nodes()[0].device_count == 4
        assert make(context(controls, clock, devices=9)).nodes()[0].device_count == 9
        with pytest.raises(InvalidInputError, match="has no GPUs"):
            make(context(controls, clock, gpus=("0",)))

    tell(story)


def test_a_job_is_ended_at_its_time_limit():
    async def story() -> None:
        trial = Trial("sleep", "60")
        trial.controls.time_limit_s = 5.0
        await trial.start()
        trial.clock.advance(5.0)
        await trial.settle()
        assert trial.ends() == [(How.TIME_LIMIT, 143)]

    tell(story)


def test_a_change_that_frees_devices_lets_an_earlier_order_begin():
    async def story() -> None:
        commands = {"a": ("announce", "size", "devices", ";", "forever"), "b": ("forever",)}
        controls = Recorder(commands)
        engine = memory_engine(context(controls, ManualClock()))
        await engine.carry_out([Start(0, "a", on("n0", 0, 1))])
        await engine.carry_out([Start(1, "b", on("n0", 1)), Change(2, "a", on("n0", 0))])
        begun = [fact.job for fact in controls.facts if isinstance(fact, JobStarted)]
        assert begun == ["a", "a", "b"]
        await engine.close()

    tell(story)
