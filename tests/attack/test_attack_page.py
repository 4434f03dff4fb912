"""The web page's streams and simulations, asked by users who should not get what they ask for."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attack.conftest import Machine
from tests.control.daemons import daemon
from tests.waiting import until
from treadle.control.jobs.submit_again import quoted
from treadle.core.errors import TreadleError
from treadle.wire.what_if import WhatIfRequest

FOLLOWED = """
import time
connection = http.client.HTTPConnection("treadle", timeout=5)
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(target.partition(":")[2])
connection.request("GET", "/api/v1/stream?log=shared-name:0:0:0", None, {})
answer = connection.getresponse()
pathlib.Path(FLAG).touch()
end, result = None, ""
while end is None or time.monotonic() < end:
    result += answer.readline().decode()
    if end is None and pathlib.Path(FLAG + "-printed").exists():
        end = time.monotonic() + 1.0
"""


def test_a_followed_name_does_not_become_another_users_job(machine: Machine, folder: Path):
    """An active job comes before one that has ended; who may read was asked before that."""
    mine = machine.submits(machine.bob, "true", name="shared-name")
    machine.daemon.ended(mine)
    flag = folder / "followed" / "open"
    flag.parent.mkdir()
    flag.parent.chmod(0o777)
    reader = subprocess.Popen(
        [sys.executable, "-c", _as_user(machine, f"FLAG = {str(flag)!r}\n{FOLLOWED}")],
        stdout=subprocess.PIPE,
        text=True,
    )
    until(flag.exists)
    theirs = machine.runs(machine.ada, "echo of-ada-alone; sleep 30", name="shared-name")
    until(lambda: "of-ada-alone" in machine.daemon.client.log(theirs).text)
    flag.with_name(f"{flag.name}-printed").touch()
    said, _ = reader.communicate(timeout=60)
    machine.daemon.client.cancel(theirs)
    machine.daemon.ended(theirs)
    assert '"text":"of-ada-alone' not in said


def _as_user(machine: Machine, code: str) -> str:
    return (
        "from tests.attack.people import act; from pathlib import Path; "
        f"print(act({code!r}, uid={machine.bob.uid}, gid={machine.bob.gid}, "
        f"socket=Path({str(machine.daemon.socket)!r})))"
    )


def test_a_simulation_imports_nothing_from_the_daemons_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """`treadle up --foreground` stays where it was started, and others may write there."""
    folder, ran = tmp_path / "writable", tmp_path / "ran"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with daemon("--devices", "1", "--engine", "memory") as served:
        (folder / "msgspec.py").write_text(f"open({str(ran)!r}, 'w')\n")
        with suppress(TreadleError):
            served.client.what_if(WhatIfRequest())
    assert not ran.exists()


def test_a_copied_command_runs_nothing_in_a_plain_shell(tmp_path: Path):
    ran = tmp_path / "ran"
    word = quoted(f"x\n';touch {ran} #")
    subprocess.run(["/bin/dash", "-c", f"true {word}"], check=False, cwd=tmp_path)
    assert not ran.exists()
