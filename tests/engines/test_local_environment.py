"""What ranks find around them: names, devices, cores, users, and each other."""

import os
import pwd
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.engines.bench import Story, on, tell, telling

from treadle.core.actions import Start
from treadle.core.allocation import Allocation, Host
from treadle.core.cluster import Device
from treadle.core.events import JobFinished
from treadle.core.launch import Launch
from treadle.engines.node import environment
from treadle.engines.node.host_shares import Share, shares
from treadle.testing.gpus import FakeGpus


def _environment(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@telling()
async def test_ranks_get_what_torchrun_would_give_them(bench: Story) -> None:
    own = {"TREADLE_CHECKPOINT_DIR": "/ckpt", "RANK": "9", "X": "1"}
    bench.job("a", "env", ranks=2, env=own, time_limit_s=60.0)
    await bench.order(Start(0, "a", on(0, 1)))
    await bench.ended()
    first, second = (_environment(bench.log("a", rank=rank)) for rank in (0, 1))
    assert {name for name in first if first[name] != second[name]} == {
        "RANK",
        "LOCAL_RANK",
        "ROLE_RANK",
        "TREADLE_MEMBER",
        "TREADLE_CHANNEL",
    }
    assert int(second.pop("MASTER_PORT")) > 1023
    wanted = {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_RUN_ID": "a",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "TREADLE_JOB_ID": "a",
        "TREADLE_ATTEMPT": "1",
        "TREADLE_NUM_DEVICES": "2",
        "TREADLE_DEVICES": "0,1",
        "TREADLE_CHECKPOINT_DIR": "/ckpt",
        "TREADLE_RESUME": "0",
        "TREADLE_GRACE": "5",
        "TREADLE_TIME_LIMIT": "60",
        "X": "1",
        "PATH": os.environ["PATH"],
    }
    assert wanted.items() <= second.items()


def test_a_launcher_gets_defaults_and_is_no_rank_itself():
    launch = Launch(job="a", attempt=1, command=("torchrun",), workdir="/", ranks=1, launcher=True)
    found = environment.common(launch, on(0, 1), uuids=("", ""), tag="t", checkpoints="/c", base={})
    found |= environment.of_rank(launch, 0, Share((), 1))
    assert found["PET_NPROC_PER_NODE"] == "2"
    assert found["PET_RDZV_ENDPOINT"].startswith("127.0.0.1:")
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"} & set(found)


def test_gpus_are_named_by_uuid_in_rank_order():
    launch = Launch(job="a", attempt=1, command=("x",), workdir="/", ranks=1,
                    env={"CUDA_VISIBLE_DEVICES": "7"})  # fmt: skip
    found = environment.common(
        launch, on(1, 0), uuids=("GPU-a", "GPU-b"), tag="t", checkpoints="/c", base={}
    )
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert found["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_the_daemon_keeps_its_environment_to_itself():
    daemon = {"PATH": "/bin", "TREADLE_TOKEN": "t", "AWS_SECRET": "s", "LC_ALL": "C", "TZ": "UTC"}
    kept = {"PATH": "/bin", "LC_ALL": "C", "TZ": "UTC"}
    assert environment.inherited(daemon, uid=None) == kept


def test_threads_are_the_users_if_they_said_so():
    launch = Launch(job="a", attempt=1, command=("x",), workdir="/", ranks=1,
                    env={"OMP_NUM_THREADS": "7"})  # fmt: skip
    found = environment.of_rank(launch, 0, Share((), 3))
    assert "OMP_NUM_THREADS" not in found
    assert found["MKL_NUM_THREADS"] == "3"


SOCKETS = {0: range(4), 1: range(4), 2: range(4, 8), 3: range(4, 8)}  # two GPUs on each


def given(
    allocation: Allocation, ranks: int = 1, *, cpus: float | None = None, cores: int = 8
) -> list[tuple[tuple[int, ...], int]]:
    found = shares(
        allocation, ranks=ranks, cores=range(cores), device_count=4, cpus=cpus, beside=SOCKETS
    )
    return [tuple(share) for share in found]  # type: ignore[misc]


def test_ranks_are_pinned_to_the_cores_that_the_driver_says_are_close():
    first, second = (0, 1, 2, 3), (4, 5, 6, 7)
    assert given(on(0)) == [(first, 2)]
    assert given(on(3)) == [(second, 2)]
    assert given(on(1, 2), 2) == [(first, 2), (second, 2)]
    assert given(on(1), 2) == [(first, 1), (first, 1)]


def test_none_is_pinned_where_nothing_is_known_and_nothing_is_left_out():
    alone = shares(on(1), ranks=1, cores=range(8), device_count=4, beside={})
    assert alone == (Share((), 2),)
    assert given(on(1, 2)) == [((), 4)]  # one rank with GPUs of both sockets
    assert given(on(0), cores=4) == [((), 1)]  # all that it may use
    assert given(on(0), cpus=6) == [((), 6)]  # more than are close


def test_threads_are_what_was_asked_for():
    host = Allocation((Device("here", 3),), host=Host(3.0, 8.0))
    less = Allocation((Device("here", 3),), host=Host(0.5, 8.0))
    assert [given(each)[0][1] for each in (host, less)] == [3, 1]
    assert sum(threads for _, threads in given(on(0, 1), 3, cpus=4)) <= 4
    assert given(on(0, 1, 2, 3), 4, cpus=4)[0][1] == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_rank_runs_on_its_cores(tmp_path: Path):
    cores = sorted(os.sched_getaffinity(0))
    gpus = FakeGpus(2)
    gpus.beside = {0: tuple(cores[:1]), 1: tuple(cores[1:])}

    async def story(bench: Story) -> None:
        code = "import os; print(sorted(os.sched_getaffinity(0)))"
        bench.job("a", "python", "-c", code, ranks=2, cpus=2)
        await bench.order(Start(0, "a", on(0, 1)))
        await bench.ended()
        assert bench.log("a", rank=0) == f"{cores[:1]}\n"
        assert bench.log("a", rank=1) == f"{cores[1:]}\n"

    tell(tmp_path, story, source=gpus)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")
@telling()
async def test_a_job_of_another_user_runs_as_that_user(bench: Story) -> None:
    nobody = pwd.getpwnam("nobody")
    command = "id -u; id -g; echo $HOME; umask; cat /etc/shadow; ls " + str(bench.root)
    bench.job("a", "sh", "-c", command, workdir="/", uid=nobody.pw_uid, user="nobody")
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    uid, gid, home, umask, *refused = bench.log("a").splitlines()
    assert (uid, gid, home) == (str(nobody.pw_uid), str(nobody.pw_gid), nobody.pw_dir)
    assert umask == "0022"
    assert "denied" in refused[0]


@telling()
async def test_checkpoints_have_a_folder_that_only_its_user_may_read(bench: Story) -> None:
    bench.job("a", "sh", "-c", 'echo 7 > "$TREADLE_CHECKPOINT_DIR/step"')
    await bench.order(Start(0, "a", on(0)))
    assert await bench.ended() == JobFinished("a", 0)
    folder = bench.root / "engine" / "checkpoints" / "a"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "step").read_text() == "7\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")
def test_checkpoints_of_another_user_belong_to_that_user():
    """Not below pytest's folder, which other users may not enter."""

    async def story(bench: Story) -> None:
        nobody = pwd.getpwnam("nobody")
        bench.root.chmod(0o711)
        write = 'echo 7 > "$TREADLE_CHECKPOINT_DIR/step"; ls "$TREADLE_CHECKPOINT_DIR/.."'
        bench.job("a", "sh", "-c", write, workdir="/", uid=nobody.pw_uid, user="nobody")
        await bench.order(Start(0, "a", on(0)))
        await bench.ended()
        folder = bench.root / "engine" / "checkpoints" / "a"
        assert (folder / "step").read_text() == "7\n"
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (nobody.pw_uid, 0o700)
        assert [path.stat().st_mode & 0o777 for path in folder.parents[:2]] == [0o711, 0o711]
        assert "denied" in bench.log("a")

    with TemporaryDirectory() as folder:
        tell(Path(folder), story)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may run jobs as any user")
@telling()
async def test_only_root_may_run_jobs_as_another_user(bench: Story) -> None:
    bench.job("a", "true", uid=0)
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    assert "does not let us run as user 0" in bench.ends[0].error


@telling()
async def test_programs_find_signals_as_they_should_be(bench: Story) -> None:
    """Python ignores SIGPIPE, and programs that it launches would too."""
    bench.job("a", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    # The C library keeps signals 32 and 33 for itself: whatever became of them before us stays.
    own = ~(0b11 << 31)
    masks = [int(line.split()[1], 16) & own for line in bench.log("a").splitlines()]
    assert masks == [0, 0]


@telling()
async def test_no_file_of_the_supervisor_is_open_in_a_rank(bench: Story) -> None:
    code = (
        "import os; line = os.environ['TREADLE_CHANNEL']; names = os.listdir('/proc/self/fd');"
        "print(sorted(int(n) for n in names if n != line)[:-1], line in names)"
    )
    bench.job("a", sys.executable, "-S", "-c", code)
    await bench.order(Start(0, "a", on(0)))
    await bench.ended()
    assert bench.log("a") == "[0, 1, 2] True\n"


def test_a_port_is_kept_for_the_attempt_that_it_was_given_to():
    port = environment.free_port()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((environment.HOST, port))
    with socket.socket() as rank:
        rank.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rank.bind((environment.HOST, port))
        rank.listen()
    assert len({environment.free_port() for _ in range(200)}) == 200
