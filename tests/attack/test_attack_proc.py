"""What other users see of a job: /proc, the API, secrets and environments."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.conftest import Machine
from tests.attack.test_attack_ranks import _rank_of, supervisor_of
from tests.waiting import until
from treadle.wire.jobs import JobRequest

SECRET = "sesame-4711-open"
PRIVATE = "a-variable-of-bob"
PRINTED = "printed-by-bob"
READS = (
    "/status",
    "/openapi.json",
    "/metrics",
    "/jobs?ended=true",
    "/jobs/{job}",
    "/jobs/{job}/why",
    "/jobs/{job}/log",
    "/nodes",
    "/policy",
    "/events?limit=1000",
    "/usage",
    "/snapshot",
    "/journal",
    "/debug",
    "/tokens",
)


@pytest.fixture(scope="module")
def job(machine: Machine) -> Iterator[str]:
    """A job of bob with a secret, a variable and output."""
    made = machine.runs(
        machine.bob,
        f"printf '%s-%s\\n' printed {PRINTED.partition('-')[2]} $S; exec sleep 120",
        secrets={"S": SECRET},
        env={"V": PRIVATE},
    )
    yield made
    machine.daemon.client.cancel(made)
    machine.daemon.ended(made)


PROC = """
def tries(pid):
    names = ("environ", "mem", "maps", "auxv", "stack", "syscall", "io", "pagemap")
    found = {name: error_of(lambda: open(f"/proc/{pid}/{name}", "rb").read(1)) for name in names}
    found["fd"] = error_of(os.listdir, f"/proc/{pid}/fd")
    for name in ("cwd", "root", "exe"):
        found[name] = error_of(os.readlink, f"/proc/{pid}/{name}")
    refused = ("PermissionError", "ProcessLookupError")
    return [name for name, error in found.items() if error not in refused]
result = {str(pid): tries(pid) for pid in PIDS}
"""


def test_proc_shows_other_users_nothing(machine: Machine, job: str) -> None:
    pids = [machine.daemon.pid, supervisor_of(machine, job), _rank_of(machine, job)]
    found = machine.ada.does(PROC.replace("PIDS", repr(pids)))
    assert found == {str(pid): [] for pid in pids}


def test_even_its_owner_cannot_look_into_the_supervisor(machine: Machine, job: str) -> None:
    """It runs as root and has the orders of the job in memory, its token included."""
    pid = supervisor_of(machine, job)
    found = machine.bob.does(PROC.replace("PIDS", repr([pid])))
    assert found == {str(pid): []}


def test_no_command_line_has_a_secret(machine: Machine, job: str) -> None:
    del job
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        assert SECRET.encode() not in words, words
        assert PRIVATE.encode() not in words, words


def test_no_answer_to_another_user_has_anything_private(machine: Machine, job: str) -> None:
    paths = [path.format(job=job) for path in READS]
    code = f"result = {{path: ask('GET', path) for path in {paths}}}"
    answers = machine.ada.does(code, socket=machine.daemon.socket)
    for path, (status, answer) in answers.items():
        text = json.dumps(answer)
        assert status in {200, 403}
        for word in (SECRET, PRIVATE, PRINTED):
            assert word not in text, (path, word)


def test_the_owner_sees_their_output_with_the_secret_masked(machine: Machine, job: str) -> None:
    status, answer = machine.asks(machine.bob, "GET", f"/jobs/{job}/log")
    assert status == 200
    assert PRINTED in str(answer["text"])
    assert SECRET not in str(answer["text"])


ORDERS = (
    ("POST", "/jobs/{job}/cancel", None),
    ("POST", "/jobs/{job}/hold", None),
    ("POST", "/jobs/{job}/release", None),
    ("PATCH", "/jobs/{job}", {"priority": -1}),
    ("POST", "/jobs/{job}/report", {"step": 1}),
    ("PUT", "/policy", {"policy": "fifo"}),
    ("POST", "/shutdown", {"mode": "cancel"}),
    ("GET", "/debug", None),
    ("POST", "/tokens", {"name": "x", "role": "admin"}),
    ("DELETE", "/tokens?user=root", None),
    ("GET", "/tokens?user=root", None),
)


def test_a_user_can_order_nothing_about_anothers_job_or_the_machine(
    machine: Machine, job: str
) -> None:
    orders = [(method, path.format(job=job), body) for method, path, body in ORDERS]
    code = f"result = [[words[1], *ask(*words)] for words in {orders}]"
    for path, status, answer in machine.ada.does(code, socket=machine.daemon.socket):
        assert status == 403, (path, answer)


def test_a_job_that_names_anothers_job_learns_only_whether_it_has_ended(
    machine: Machine, job: str
) -> None:
    request = {"command": ["true"], "workdir": "/", "after": [job]}
    status, answer = machine.asks(machine.ada, "POST", "/jobs", request)
    assert status == 201
    mine = str(answer["id"])
    _, why = machine.asks(machine.ada, "GET", f"/jobs/{mine}/why")
    assert PRIVATE not in json.dumps(why)
    machine.daemon.client.cancel(mine)


def test_a_token_of_a_job_is_good_for_its_own_report_and_nothing_else(machine: Machine) -> None:
    """Ada's job shows its token to ada; it cannot read, submit, or report on bob's job."""
    job = machine.runs(machine.ada, 'echo "$TREADLE_JOB_TOKEN" > $HOME/token; exec sleep 60')
    token_file = machine.ada.home / "token"
    until(lambda: token_file.exists() and token_file.read_text().strip())
    token = token_file.read_text().strip()
    assert token.startswith("treadlejob_")
    other = machine.runs(machine.bob, "exec sleep 60")
    for method, path, body, wanted in (
        ("POST", f"/jobs/{job}/report", {"step": 1, "total": 10}, 204),
        ("POST", f"/jobs/{other}/report", {"step": 1}, 403),
        ("GET", "/jobs", None, 403),
        ("GET", f"/jobs/{job}/log", None, 403),
        ("POST", "/jobs", {"command": ["true"]}, 403),
        ("POST", "/tokens", {"name": "x"}, 403),
        ("POST", f"/jobs/{job}/cancel", None, 403),
    ):
        status, answer = machine.asks(machine.bob, method, path, body, token)
        assert status == wanted, (path, answer)
    forged = token.replace(f"treadlejob_{job}_", f"treadlejob_{other}_")
    status, _ = machine.asks(machine.ada, "POST", f"/jobs/{other}/report", {"step": 1}, forged)
    assert status == 401
    for each in (job, other):
        machine.daemon.client.cancel(each)
    machine.daemon.ended(job, other)
    status, _ = machine.asks(machine.ada, "POST", f"/jobs/{job}/report", {"step": 2}, token)
    assert status == 401, "it ended with its job"


def test_an_admin_may_do_all_that_but_not_become_root(machine: Machine) -> None:
    job = machine.runs(machine.bob, "exec sleep 60")
    assert machine.asks(machine.admin, "POST", f"/jobs/{job}/cancel")[0] == 200
    machine.daemon.ended(job)
    status, answer = machine.asks(
        machine.admin, "POST", "/tokens", {"name": "x", "user": "root", "role": "admin"}
    )
    assert status == 403
    assert answer["detail"] == "only root makes tokens for root"
    assert machine.prints(machine.admin, "id -u").strip() == str(machine.admin.uid)
    assert machine.daemon.client.submit(JobRequest(command=("true",), workdir="/")).id
