"""Devices that others use, that are not clean, or that an admin avoids."""

import errno
import os
import subprocess
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.engines.bench import Story, on, tell, telling

from treadle.core.actions import Start
from treadle.core.cluster import Device
from treadle.core.errors import EngineError, InvalidInputError
from treadle.core.events import DeviceClosed, DeviceOpened, JobFinished, JobStarted, JobStopped
from treadle.core.machine import DeviceOrder
from treadle.engines.agent import device_choice
from treadle.engines.node import device_watch, gpus
from treadle.engines.node.devices import CpuSlots, Sight, node_of
from treadle.engines.registry import EngineOptions
from treadle.testing.gpus import FakeGpus

GPU = Device("here", 0)


@pytest.fixture
def stranger() -> Iterator[int]:
    child = subprocess.Popen(["sleep", "600"])
    yield child.pid
    child.kill()
    child.wait()


def test_nothing_is_started_on_a_gpu_that_another_program_uses(tmp_path: Path, stranger: int):
    async def story(bench: Story) -> None:
        bench.job("a", "true")
        fake.put(0, stranger)
        await bench.order(Start(0, "a", on(0)))
        assert await bench.event() == JobStopped("a", 0, 0.0)  # back to the queue
        assert not bench.ends
        (closed,) = bench.closed
        assert isinstance(closed, DeviceClosed)
        assert (closed.device, closed.cause) == (GPU, "foreign")
        reason = closed.reason
        assert f"process {stranger} of " in reason
        view = bench.engine.view()[0].devices[0]
        assert (view.state, view.because, view.foreign[0].pid) == ("foreign", reason, stranger)
        assert view.foreign[0].command == "sleep 600"
        fake.put(0)
        await bench.order(Start(1, "a", on(0)))
        assert await bench.ended() == JobFinished("a", 1)
        assert bench.closed[1:] == [DeviceOpened(GPU)]

    fake = FakeGpus(2)
    tell(tmp_path, story, source=fake)


def test_a_device_that_could_not_be_looked_at_is_given_on_once_it_can(tmp_path: Path, monkeypatch):
    async def story(bench: Story) -> None:
        await bench.begin()
        watch, looks = bench.machine.device_watch, list[str]()
        clean = watch.clean

        async def short_of_descriptors(numbers: Collection[int], tag: str, *, job: str) -> None:
            looks.append(job)
            if len(looks) == 1:
                raise OSError(errno.EMFILE, "too many open files")
            await clean(numbers, tag, job=job)

        monkeypatch.setattr(watch, "clean", short_of_descriptors)
        for number, name in enumerate("ab"):
            bench.job(name, "true")
            await bench.order(Start(number, name, on(0)))
            assert await bench.ended() == JobFinished(name, number)
        assert looks[:2] == ["a", "a"]

    tell(tmp_path, story, source=FakeGpus(1))


def test_foreign_processes_that_come_and_go_are_noticed(tmp_path: Path, stranger: int, monkeypatch):
    monkeypatch.setattr(device_watch, "LOOK_EVERY_S", 0.01)

    async def story(bench: Story) -> None:
        await bench.engine.adopt([])
        fake.put(1, stranger)
        await bench.until(lambda: bench.closed)
        fake.put(1)
        await bench.until(lambda: len(bench.closed) == 2)
        assert [(type(fact), fact.device) for fact in bench.closed] == [
            (DeviceClosed, Device("here", 1)),
            (DeviceOpened, Device("here", 1)),
        ]

    fake = FakeGpus(2)
    tell(tmp_path, story, source=fake)


def test_our_own_processes_are_not_foreign(tmp_path: Path):
    async def story(bench: Story) -> None:
        bench.job("a", "sh", "-c", "echo $$; exec sleep 600")
        # A program that writes over its own environment, as those that set their title do.
        bench.job("b", "env", "-i", "sh", "-c", "echo $$; exec sleep 600")
        await bench.order(Start(0, "a", on(0)), Start(1, "b", on(1)))
        for _ in range(2):
            assert isinstance(await bench.event(), JobStarted)
        for number, name in enumerate("ab"):
            await bench.until(partial(bench.log, name))
            fake.put(number, int(bench.log(name)))
        await bench.machine.device_watch.look()
        assert not bench.closed
        assert [view.state for view in bench.engine.view()[0].devices] == ["held", "held"]
        fake.put(0)
        fake.put(1)

    fake = FakeGpus(2)
    tell(tmp_path, story, source=fake)


def test_the_next_job_waits_until_the_gpu_is_clean(tmp_path: Path):
    async def story(bench: Story) -> None:
        await bench.begin()
        bench.job("a", "true")
        bench.job("b", "true")
        await bench.machine.device_watch.look()
        fake.put(0, used_gib=40.0)
        await bench.order(Start(0, "a", on(0)))
        assert await bench.ended() == JobFinished("a", 0)
        await bench.order(Start(1, "b", on(0), ("a",)))
        looks = fake.looks
        await bench.until(lambda: fake.looks >= looks + 3)
        assert bench.inbox.empty()
        fake.put(0)
        assert isinstance(await bench.event(), JobStarted)
        assert not bench.closed

    fake = FakeGpus(1)
    tell(tmp_path, story, source=fake)


def test_a_gpu_that_stays_unclean_is_quarantined_until_an_admin_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(device_watch, "CLEAN_WITHIN_S", 0.05)

    async def story(bench: Story) -> None:
        await bench.begin()
        bench.job("a", "true")
        bench.job("b", "true")
        await bench.machine.device_watch.look()
        fake.put(0, used_gib=40.0)
        await bench.order(Start(0, "a", on(0)))
        await bench.ended()
        await bench.order(Start(1, "b", on(0)))
        assert await bench.event() == JobStopped("b", 1, 0.0)
        sentence = (
            "device here:0 still has 40.0 GiB in use after job a ended, and 0.0 GiB at rest; "
            "look at nvidia-smi, then open the device again"
        )
        assert bench.closed == [DeviceClosed(GPU, sentence, "quarantined")]
        view = bench.engine.view()[0].devices[0]
        assert (view.state, view.because) == ("quarantined", sentence)
        await bench.engine.order_device(GPU, DeviceOrder.MANAGE)
        assert bench.closed[1:] == [DeviceOpened(GPU)]
        assert bench.engine.view()[0].devices[0].state == "free"

    fake = FakeGpus(1)
    tell(tmp_path, story, source=fake)


@telling(excluded=(0,))
async def test_a_device_that_options_exclude_takes_nothing_until_it_is_managed(
    bench: Story,
) -> None:
    bench.job("a", "true")
    await bench.engine.adopt([])
    reason = "the options of treadle up exclude device here:0"
    assert bench.closed == [DeviceClosed(GPU, reason, "excluded")]
    assert bench.engine.view()[0].devices[0].state == "avoided"
    await bench.order(Start(0, "a", on(0)))
    assert await bench.event() == JobStopped("a", 0, 0.0)
    await bench.engine.order_device(GPU, DeviceOrder.MANAGE)
    await bench.order(Start(1, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 1)


class SlowGpus(FakeGpus):
    """Devices whose driver answers when the test says so."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.may_answer = threading.Event()
        self.may_answer.set()

    def look(self) -> tuple[Sight, ...]:
        self.may_answer.wait(60)
        return super().look()


def test_what_was_foreign_before_a_restart_is_opened_after_the_first_look(tmp_path: Path):
    async def story(bench: Story) -> None:
        slow.may_answer.clear()  # It was asked once, for the memory of its devices.
        before = {GPU: DeviceClosed(GPU, "process 7 is on device here:0", "foreign")}
        await bench.engine.adopt([], closed=before)
        assert not bench.closed
        slow.may_answer.set()
        await bench.until(lambda: bench.closed)
        assert bench.closed == [DeviceOpened(GPU)]

    slow = SlowGpus(1)
    tell(tmp_path, story, source=slow)


def test_attempts_that_share_a_device_share_its_busy_time(tmp_path: Path):
    async def story(bench: Story) -> None:
        for name in "abc":
            bench.job(name, "sleep", "600")
        await bench.order(
            Start(0, "a", on(0)), Start(1, "b", on(0, turn=1)), Start(2, "c", on(1, 2))
        )
        for _ in "abc":
            assert isinstance(await bench.event(), JobStarted)
        fake.set_busy(0.9, 0.2, 0.6)
        await bench.machine.observer.look()
        found = {each.job: each.busy for each in bench.machine.measurements()}
        assert found == pytest.approx({"a": 0.45, "b": 0.45, "c": 0.4})

    fake = FakeGpus(3)
    tell(tmp_path, story, source=fake)


@pytest.mark.parametrize(
    ("options", "excluded"),
    [
        ({}, ()),
        ({"avoid": ("1",)}, (1,)),
        ({"gpus": ("GPU-00000002", "0")}, (1, 3)),
        ({"gpus": ("0", "1"), "avoid": ("GPU-00000001",)}, (1, 2, 3)),
    ],
)
def test_options_name_gpus_by_number_or_uuid(options, excluded: tuple[int, ...]):
    assert device_choice.excluded_by(EngineOptions(**options), FakeGpus(4)) == excluded


@pytest.mark.parametrize("name", ["4", "-1", "GPU-x", "", "١"])
def test_a_gpu_that_does_not_exist_is_refused(name: str):
    with pytest.raises(InvalidInputError, match="expected a number from 0 to 3, or a UUID"):
        device_choice.excluded_by(EngineOptions(avoid=(name,)), FakeGpus(4))


def test_without_gpus_there_is_a_slot_for_each_core(monkeypatch: pytest.MonkeyPatch):
    def none() -> None:
        raise EngineError("no GPU can be used: NVML finds none", retryable=False)

    monkeypatch.setattr(device_choice, "NvmlGpus", none)
    assert len(device_choice.devices_of(EngineOptions()).uuids) == len(os.sched_getaffinity(0))
    assert len(device_choice.devices_of(EngineOptions(devices=5)).uuids) == 5
    with pytest.raises(InvalidInputError, match="GPUs were named, and no GPU can be used"):
        device_choice.devices_of(EngineOptions(gpus=("0",)))


def test_a_gpu_that_cannot_be_seen_is_not_used(tmp_path: Path):
    async def story(bench: Story) -> None:
        await bench.begin()
        fake.put(0, error="the NVIDIA driver does not answer")
        await bench.machine.device_watch.look()
        await bench.until(lambda: bench.closed)
        assert bench.closed == [
            DeviceClosed(
                GPU, "device here:0 cannot be seen: the NVIDIA driver does not answer", "unseen"
            )
        ]

    fake = FakeGpus(1)
    tell(tmp_path, story, source=fake)


def test_processes_behind_a_wall_are_believed_only_if_they_stay(tmp_path: Path, monkeypatch):
    """A number that /proc does not know: it has just ended, or lives in another container."""

    async def story(bench: Story) -> None:
        await bench.begin()
        fake.put(0, 2**22 + 1)
        await bench.machine.device_watch.look()
        await bench.machine.device_watch.look()
        assert not bench.closed
        monkeypatch.setattr(device_watch, "UNSEEN_S", 0.0)
        await bench.machine.device_watch.look()
        await bench.until(lambda: bench.closed)
        assert [type(fact) for fact in bench.closed] == [DeviceClosed]

    fake = FakeGpus(1)
    tell(tmp_path, story, source=fake)


def test_a_driver_that_hangs_costs_an_answer_and_nothing_else():
    worker = gpus._Worker()
    hangs = threading.Event()
    with pytest.raises(EngineError, match=r"has not answered for 0\.05 s"):
        worker.ask(hangs.wait, 0.05)
    with pytest.raises(EngineError, match="does not answer"):
        worker.ask(lambda: 1, 0.05)
    hangs.set()  # it comes back, however late
    back = threading.Event()
    worker._questions.put((back.set, SimpleQueue()))
    assert back.wait(30)
    assert worker.ask(lambda: 1, 30.0) == 1


def test_slots_of_the_cpu_make_a_node():
    node = node_of(CpuSlots(4), "here")
    assert (node.device_count, node.device_type) == (4, "cpu")
    assert node.cores == len(os.sched_getaffinity(0))
    assert node.memory_gib > 0.1
    with pytest.raises(InvalidInputError, match="0 CPU slots were requested"):
        CpuSlots(0)


def test_the_type_of_a_node_is_the_model_of_its_gpus_if_they_are_alike():
    gpus = FakeGpus(2)
    assert node_of(gpus, "here").device_type == "Fake 80GB"
    gpus._sights[1] = replace(gpus._sights[1], model="Fake 40GB")
    assert node_of(gpus, "here").device_type == "gpu", "no device of it can be named"
    gpus._sights[1] = replace(gpus._sights[1], model="", error="it does not answer")
    assert node_of(gpus, "here").device_type == "gpu"
