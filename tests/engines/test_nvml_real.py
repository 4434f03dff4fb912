"""The path through NVML on a machine that has GPUs; skipped, with NVML's own words, elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, tell

from treadle.core.actions import Start
from treadle.core.errors import EngineError
from treadle.core.events import DeviceClosed, DeviceOpened, JobFinished, JobStarted
from treadle.core.machine import DeviceView
from treadle.engines.node.devices import node_of
from treadle.engines.node.gpus import NvmlGpus


@pytest.fixture(scope="module")
def gpus() -> NvmlGpus:
    try:
        return NvmlGpus()
    except EngineError as error:
        pytest.skip(str(error))


def test_gpus_are_found_by_uuid(gpus: NvmlGpus):
    assert gpus.uuids
    assert all(uuid.startswith("GPU-") for uuid in gpus.uuids)
    assert len(set(gpus.uuids)) == len(gpus.uuids)
    assert gpus.driver
    assert node_of(gpus, "here").device_count == len(gpus.uuids)


def test_what_is_seen_of_a_gpu_makes_sense(gpus: NvmlGpus):
    for number, sight in enumerate(gpus.look()):
        assert (sight.number, sight.uuid, sight.error) == (number, gpus.uuids[number], "")
        assert sight.model
        assert sight.memory_gib is not None
        assert sight.memory_used_gib is not None
        assert 0 <= sight.memory_used_gib <= sight.memory_gib
        assert sight.busy is None or 0 <= sight.busy <= 1
        assert os.getpid() not in [process.pid for process in sight.processes]


HOLD = """
import os, sys, time, torch
held = torch.empty(int(float(sys.argv[1]) * 2**30), dtype=torch.uint8, device="cuda")
print(os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
if sys.argv[3:] and os.fork() == 0:
    os.setsid()
    time.sleep(1000)
time.sleep(float(sys.argv[2]))
"""


def device(bench: Story) -> DeviceView:
    return bench.engine.view()[0].devices[0]


def test_a_job_is_given_its_gpu_and_leaves_it_clean(gpus: NvmlGpus, tmp_path: Path):
    """1. It holds 4 GiB, and forks a daemon. 2. It ends, and so does the daemon."""
    pytest.importorskip("torch")

    async def story(bench: Story) -> None:
        bench.job("a", "python", "-W", "ignore", "-c", HOLD, "4", "5", "daemon")
        await bench.order(Start(0, "a", on(0)))
        assert isinstance(await bench.event(), JobStarted)
        await bench.until(lambda: (device(bench).memory_used_gib or 0.0) > 4.0)
        assert (device(bench).state, len(device(bench).foreign)) == ("held", 0)
        assert await bench.ended() == JobFinished("a", 0)
        assert bench.log("a").split() == [gpus.uuids[0]]
        await bench.until(lambda: device(bench).state == "free")

    tell(tmp_path, story, source=gpus)


def test_another_program_on_a_gpu_closes_it_until_it_has_gone(gpus: NvmlGpus, tmp_path: Path):
    pytest.importorskip("torch")

    async def story(bench: Story) -> None:
        await bench.begin()
        other = subprocess.Popen([sys.executable, "-c", HOLD, "5", "600"])
        try:
            await bench.until(lambda: device(bench).state == "foreign")
            assert [process.pid for process in device(bench).foreign] == [other.pid]
        finally:
            other.kill()
            other.wait()
        await bench.until(lambda: device(bench).state == "free")
        assert [type(fact) for fact in bench.closed] == [DeviceClosed, DeviceOpened]

    tell(tmp_path, story, source=gpus)
