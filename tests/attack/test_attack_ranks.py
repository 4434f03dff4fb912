"""What a job's process is: its user, groups, rights, files and limits."""

import os
import resource
import signal
import subprocess

import pytest

from tests.attack.conftest import Machine
from tests.attack.people import User
from treadle.wire.jobs import State

ABOUT = """
cat /proc/self/status; echo "HOME=$HOME USER=$USER LOGNAME=$LOGNAME"; pwd; echo "FILES"
for each in /proc/$$/fd/*; do echo "$each $(readlink $each)"; done
"""


def fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


@pytest.mark.parametrize("who", ["ada", "admin"])
def test_a_rank_is_its_owner_and_nothing_of_root_is_left(machine: Machine, who: str) -> None:
    user: User = getattr(machine, who)
    text = machine.prints(user, ABOUT)
    found = fields(text)
    assert found["Uid"].split() == [str(user.uid)] * 4
    assert found["Gid"].split() == [str(user.gid)] * 4
    assert {int(each) for each in found["Groups"].split()} == set(user.groups)
    assert "0" not in found["Groups"].split()
    for rights in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(found[rights], 16) == 0, rights
    assert found["Umask"] == "0022"
    assert f"HOME={user.home} USER={user.name} LOGNAME={user.name}" in text


def test_the_group_that_a_user_was_put_into_is_among_a_ranks(machine: Machine) -> None:
    assert str(machine.group) in machine.prints(machine.ada, "id -G").split()
    assert str(machine.group) not in machine.prints(machine.bob, "id -G").split()


def test_a_rank_inherits_no_file_of_the_daemon(machine: Machine) -> None:
    text = machine.prints(machine.ada, 'echo "channel $TREADLE_CHANNEL"; exec ls -l /proc/self/fd')
    rows = [line.partition(" -> ") for line in text.splitlines() if " -> " in line]
    files = {int(left.split()[-1]): target for left, _, target in rows}
    assert files[0] == "/dev/null"
    assert files[1].startswith("pipe:")
    assert files[2] == files[1]
    # What `ls` itself looks at.
    own = {number for number, target in files.items() if target.endswith("/fd")}
    # The rank's own end of a pair of sockets, whose other end is its supervisor's.
    channel = int(text.partition("channel ")[2].split()[0])
    assert files[channel].startswith("socket:")
    assert set(files) - own == {0, 1, 2, channel}


def test_a_rank_has_the_limits_that_the_daemon_was_started_with(machine: Machine) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert machine.prints(machine.ada, "ulimit -Sn; ulimit -Hn").split() == [str(soft), str(hard)]


def test_a_rank_sees_none_of_the_daemons_environment(machine: Machine) -> None:
    names = machine.prints(machine.ada, "env | cut -d= -f1").split()
    with open(f"/proc/{machine.daemon.pid}/environ", "rb") as file:  # noqa: PTH123
        daemons = {part.partition(b"=")[0].decode() for part in file.read().split(b"\0")}
    known = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "PWD"}
    known |= {"PYTHONUNBUFFERED", "SSL_CERT_FILE", "SSL_CERT_DIR", "SHLVL", "_"}
    leaked = {
        name
        for name in daemons & set(names) - known
        if not name.startswith(("LC_", "TREADLE_", "OMP_", "CUDA_"))
    }
    assert leaked == set()


def test_a_job_cannot_get_more_rights_than_its_owner_has(machine: Machine) -> None:
    text = machine.prints(
        machine.ada,
        "cat /etc/shadow 2>&1 >/dev/null; mkdir /etc/x 2>&1; kill -0 1 2>&1; "
        "echo > /proc/sys/kernel/hostname; mount -t tmpfs x /mnt 2>&1; echo done",
    )
    assert text.count("ermission denied") + text.count("not permitted") >= 3
    assert "done" in text


def test_roots_setuid_programs_of_a_user_are_theirs(machine: Machine) -> None:
    """A setuid bit that a user sets gives that user's rights, and no others."""
    copy = machine.ada.home / "id"
    machine.prints(machine.ada, f"cp /usr/bin/id {copy} && chmod 4755 {copy}")
    assert copy.stat().st_uid == machine.ada.uid
    found = machine.prints(machine.ada, f"{copy} -u")
    assert found.strip() == str(machine.ada.uid)


# -- what a user can do to the processes around a job


def supervisor_of(machine: Machine, job: str) -> int:
    for line in _processes():
        pid, name = line.split(maxsplit=1)
        if name == f"treadle:{job}":
            return int(pid)
    raise AssertionError(f"job {job} has no supervisor")


def _processes() -> list[str]:
    found = subprocess.run(["ps", "-eo", "pid=,comm="], capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def test_a_user_cannot_signal_the_daemon_or_a_supervisor(machine: Machine) -> None:
    job = machine.runs(machine.ada, "exec sleep 60")
    supervisor = supervisor_of(machine, job)
    forker = int(
        [part for part in _status(supervisor) if part.startswith("PPid:")][0].split()[1]  # noqa: RUF015
    )
    pids = [machine.daemon.pid, supervisor] + ([forker] if forker > 1 else [])
    signals = [int(each) for each in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM)]
    code = f"result = [error_of(os.kill, pid, each) for pid in {pids} for each in {signals}]"
    assert set(machine.ada.does(code)) == {"PermissionError"}
    machine.asks(machine.ada, "POST", f"/jobs/{job}/cancel")
    machine.daemon.ended(job)


def _status(pid: int) -> list[str]:
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
        return file.read().splitlines()


def test_a_user_who_kills_and_stops_their_own_ranks_harms_only_that_job(machine: Machine) -> None:
    mine = machine.runs(machine.ada, "exec sleep 60", retries=0)
    other = machine.runs(machine.bob, "exec sleep 60")
    stopped = machine.runs(machine.ada, "exec sleep 60")
    ranks = [_rank_of(machine, job) for job in (mine, stopped)]
    code = f"os.kill({ranks[1]}, signal.SIGSTOP); os.kill({ranks[0]}, signal.SIGKILL); result = 0"
    machine.ada.does(code)
    (view,) = machine.daemon.ended(mine)
    assert view.state is State.FAILED
    assert machine.daemon.view(other).state is State.RUNNING
    for user, job in ((machine.ada, stopped), (machine.bob, other)):
        machine.asks(user, "POST", f"/jobs/{job}/cancel")
        machine.daemon.ended(job)
    assert not os.path.exists(f"/proc/{ranks[1]}")  # noqa: PTH110


def _rank_of(machine: Machine, job: str) -> int:
    supervisor = supervisor_of(machine, job)
    with open(f"/proc/{supervisor}/task/{supervisor}/children") as file:  # noqa: PTH123
        return int(file.read().split()[0])


def test_a_user_cannot_trace_a_supervisor_or_the_daemon(machine: Machine) -> None:
    job = machine.runs(machine.ada, "exec sleep 60")
    attach = 16
    pids = [
        machine.daemon.pid,
        supervisor_of(machine, job),
        _rank_of(machine, machine_other(machine)),
    ]
    code = (
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"result = [libc.ptrace({attach}, pid, 0, 0) for pid in {pids}]"
    )
    assert machine.ada.does(code) == [-1] * len(pids)
    for each in machine.daemon.client.job_page().jobs:
        machine.daemon.client.cancel(each.id)
    machine.daemon.ended(job)


def machine_other(machine: Machine) -> str:
    return machine.runs(machine.bob, "exec sleep 60")
