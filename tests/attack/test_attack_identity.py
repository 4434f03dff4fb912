"""Users who come and go, users whom the machine does not have, and ids of user namespaces."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attack.conftest import Machine
from tests.attack.people import act, remove, user_of_machine
from treadle.wire.jobs import State
from treadle.wire.machine import Role, TokenRequest

SPARE_UID = 54_321  # no user has it
CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4
SUBMIT = "result = ask('POST', '/jobs', {'command': ['id', '-u'], 'workdir': '/'})"


def test_a_user_id_without_a_name_is_refused_everything(machine: Machine) -> None:
    for method, path in (("GET", "/status"), ("GET", "/jobs"), ("POST", "/jobs/1/cancel")):
        status, answer = act(
            f"result = ask({method!r}, {path!r})",
            uid=SPARE_UID,
            gid=SPARE_UID,
            socket=machine.daemon.socket,
        )
        assert status == 401
        assert f"this machine has no user with the id {SPARE_UID}" in answer["detail"]
    status, _ = act(SUBMIT, uid=SPARE_UID, gid=SPARE_UID, socket=machine.daemon.socket)
    assert status == 401


def test_the_group_of_root_gives_nothing(machine: Machine) -> None:
    """A peer is its user id; groups give no role."""
    status, answer = act(
        "result = ask('GET', '/debug')",
        uid=machine.ada.uid,
        gid=0,
        groups=[0],
        socket=machine.daemon.socket,
    )
    assert status == 403, answer


def test_a_removed_user_leaves_nothing_to_the_next_one_of_that_name(
    machine: Machine, folder: Path
) -> None:
    """1. A user submits a job and has a token. 2. The user is removed: token and id are refused.
    3. Another user gets the name: the token stays refused, and the job is not theirs. 4. Another
    user gets the id and another name: the token stays refused."""
    name, other = f"td{os.getpid()}", f"te{os.getpid()}"
    socket = machine.daemon.socket
    with user_of_machine(name, folder) as first:
        job = machine.runs(first, "exec sleep 120")
        token = machine.daemon.client.make_token(
            TokenRequest(name="x", user=name, role=Role.USER)
        ).token
        assert machine.asks(machine.ada, "GET", "/status", token=token)[0] == 200
    assert machine.asks(machine.ada, "GET", "/status", token=token)[0] == 401
    assert act(SUBMIT, uid=first.uid, gid=first.gid, socket=socket)[0] == 401
    with user_of_machine(name, folder, uid=first.uid + 500) as second:
        assert machine.asks(machine.ada, "GET", "/status", token=token)[0] == 401
        for method, path in (
            ("POST", f"/jobs/{job}/cancel"),
            ("GET", f"/jobs/{job}/log"),
            ("POST", f"/jobs/{job}/hold"),
        ):
            assert machine.asks(second, method, path)[0] == 403
        assert machine.asks(second, "GET", "/tokens")[1] == []
    with user_of_machine(other, folder, uid=first.uid):
        assert machine.asks(machine.ada, "GET", "/status", token=token)[0] == 401
    remove(name)
    machine.daemon.client.cancel(job)
    machine.daemon.ended(job)


@pytest.mark.parametrize("heir", ["none", "of the id", "of the name"])
def test_the_queued_job_of_a_removed_user_never_runs(
    machine: Machine, folder: Path, heir: str
) -> None:
    """Neither as an id without a name, nor as the user who has the id or the name by now."""
    name, other = f"tf{os.getpid()}", f"th{os.getpid()}"
    with user_of_machine(name, folder) as gone:
        job = machine.submits(gone, "id -u", held=True, retries=0)
    with ExitStack() as users:
        if heir == "of the id":
            users.enter_context(user_of_machine(other, folder, uid=gone.uid))
        if heir == "of the name":
            users.enter_context(user_of_machine(name, folder, uid=gone.uid + 500))
        machine.daemon.client.release(job)
        (view,) = machine.daemon.ended(job)
    assert view.state is State.FAILED
    failure = machine.daemon.client.job(job).failure
    assert failure is not None
    assert "this machine has no such user now" in failure.evidence


def test_root_in_a_user_namespace_is_the_user_outside(machine: Machine) -> None:
    """The kernel names the user outside, whatever id they have within."""
    code = f"""
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl({PR_SET_DUMPABLE}, 1, 0, 0, 0)  # a change of user takes /proc/self away
if libc.unshare({CLONE_NEWUSER}) != 0:
    result = ["no namespaces"]
else:
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {{uid}} 1")
    result = [os.getuid(), *ask("GET", "/debug"), *ask("GET", "/tokens")]
"""
    found = machine.ada.does(code, socket=machine.daemon.socket)
    if found == ["no namespaces"]:
        pytest.skip("this machine has no user namespaces for users")
    assert found[:2] == [0, 403]
    assert f"user {machine.ada.name} has the role user" in found[2]["detail"]
    assert found[3] == 200


@pytest.mark.skipif(shutil.which("newuidmap") is None, reason="this machine has no newuidmap")
def test_a_subordinate_id_is_no_user(machine: Machine) -> None:
    """A user who maps ids of their own in a namespace gets ids without names, which are refused."""
    first = next(
        int(line.split(":")[1])
        for line in Path("/etc/subuid").read_text().splitlines()
        if line.startswith(f"{machine.ada.name}:")
    )
    status, answer = act(SUBMIT, uid=first, gid=first, socket=machine.daemon.socket)
    assert status == 401, answer


def test_no_header_says_who_asks(machine: Machine) -> None:
    headers = dict.fromkeys(("X-Forwarded-User", "X-Remote-User", "Remote-User"), "root")
    code = f"""
connection = http.client.HTTPConnection("treadle")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(target.partition(":")[2])
connection.request("GET", "/api/v1/debug", headers={headers})
result = connection.getresponse().status
"""
    assert machine.ada.does(code, socket=machine.daemon.socket) == 403
