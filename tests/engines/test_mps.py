"""The MPS daemon of jobs that may share, with a stand-in for NVIDIA's program (mps_stand_in.py).

NVIDIA's own needs a GPU; benchmarks/gpu/mps_check.py runs the same class on one.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, tell

from treadle.core.actions import Start, Stop
from treadle.core.events import JobStarted
from treadle.core.launch import AttemptId, Launch
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG
from treadle.engines.node.mps import MARK, Mps
from treadle.testing.gpus import FakeGpus

HERE = Path(__file__).parent


@pytest.fixture
def program(tmp_path: Path) -> str:
    made = tmp_path / "nvidia-cuda-mps-control"
    code = (HERE / "mps_stand_in.py").read_text().partition("\n")[2]
    made.write_text(f"#!{sys.executable}\n{code}")
    made.chmod(0o755)
    return str(made)


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: sockets are made there."""
    folder = Path(tempfile.mkdtemp(prefix="mps"))
    yield folder
    processes.kill_tagged(TAG, f"{folder.name}-*")
    shutil.rmtree(folder, ignore_errors=True)


def launch(job: str, **fields: object) -> Launch:
    own = {"may_share": True, **fields}
    return Launch(job=job, attempt=1, command=("true",), workdir="/", ranks=1, **own)  # type: ignore[arg-type]


def folder_of(root: Path, job: str) -> Path:
    folder = root / job
    folder.mkdir(exist_ok=True)
    return folder


def daemons(root: Path) -> int:
    return len(processes.tagged(TAG, f"{root.name}-*"))


def test_the_first_sharer_starts_the_daemon_and_the_last_takes_it_down(root: Path, program: str):
    mps = Mps(root, root.name, program)
    first = mps.join(launch("a"), on(0), folder_of(root, "a"))
    assert first["CUDA_MPS_PIPE_DIRECTORY"].startswith(str(root))
    assert daemons(root) == 1
    assert mps.join(launch("b"), on(0, turn=1), folder_of(root, "b")) == first
    assert daemons(root) == 1
    mps.leave(AttemptId("a", 1))
    assert daemons(root) == 1
    mps.leave(AttemptId("b", 1))
    assert daemons(root) == 0
    assert mps.broken == ""


def test_a_client_may_use_as_much_memory_as_its_user_asked_for(root: Path, program: str):
    mps = Mps(root, root.name, program)
    asked = launch("a", device_memory_gib=20.0)
    found = mps.join(asked, on(3), folder_of(root, "a"))
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M,3=20480M"


def test_a_job_that_does_not_share_starts_without_mps(root: Path, program: str):
    mps = Mps(root, root.name, program)
    assert mps.join(launch("a", may_share=False), on(0), folder_of(root, "a")) == {}
    other = launch("c", uid=os.geteuid() + 1)  # Root would work in folders that this user owns.
    assert mps.join(other, on(0), folder_of(root, "c")) == {}
    own = launch("b", env={"CUDA_MPS_PIPE_DIRECTORY": "/own"})
    assert mps.join(own, on(0), folder_of(root, "b")) == {}
    assert daemons(root) == 0


def test_a_daemon_that_hangs_is_killed_and_jobs_share_without_it(root: Path, program: str):
    mps = Mps(root, root.name, program)
    found = mps.join(launch("a"), on(0), folder_of(root, "a"))
    assert mps._served is not None
    mps._served.answer_within_s = 0.5
    mps.check()
    assert mps.broken == ""
    Path(found["CUDA_MPS_PIPE_DIRECTORY"], "hang").touch()
    mps.check()
    assert mps.broken == "the MPS daemon has not answered for 0.5 s"
    assert daemons(root) == 0
    assert mps.join(launch("b"), on(0), folder_of(root, "b")) == {}


def test_a_program_that_fails_leaves_jobs_without_mps(root: Path):
    mps = Mps(root, root.name, "/bin/false")
    assert mps.join(launch("a"), on(0), folder_of(root, "a")) == {}
    assert mps.broken.startswith("nvidia-cuda-mps-control -d failed")


def test_the_next_engine_takes_the_daemon_of_running_jobs_over(root: Path, program: str):
    before = Mps(root, root.name, program)
    before.join(launch("a"), on(0), folder_of(root, "a"))
    after = Mps(root, root.name, program)
    after.adopt(AttemptId("a", 1), root / "a")
    after.adopt(AttemptId("b", 1), folder_of(root, "b"))
    assert (root / "a" / MARK).exists()
    assert after.is_client(AttemptId("a", 1))
    assert not after.is_client(AttemptId("b", 1))
    after.leave(AttemptId("a", 1))
    assert daemons(root) == 0


def test_jobs_of_the_engine_run_under_mps_and_are_measured_so(root: Path, program: str):
    """1. Two jobs that may share start on one GPU. 2. Both see the daemon. 3. They stop."""

    async def story(bench: Story) -> None:
        await bench.begin()
        bench.machine.mps = Mps(root, bench.folders.instance, program)
        for name in "ab":
            bench.job(name, "sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY; sleep 600", may_share=True)
        await bench.order(Start(0, "a", on(0)), Start(1, "b", on(0, turn=1)))
        for _ in "ab":
            assert isinstance(await bench.event(), JobStarted)
        await bench.until(lambda: bench.log("a").strip() and bench.log("b").strip())
        assert bench.log("a") == bench.log("b")
        await bench.machine.observer.look()
        assert [each.mps for each in bench.machine.measurements()] == [True, True]
        tag = f"{bench.folders.instance}-mps-*"
        assert len(processes.tagged(TAG, tag)) == 1
        await bench.order(Stop(2, "a"), Stop(3, "b"))
        await bench.ended()
        await bench.ended()
        await bench.until(lambda: not processes.tagged(TAG, tag))

    tell(root, story, source=FakeGpus(1))
