"""Warm interpreters against their own users: whose processes they are, and what root believes."""

import os
import pwd
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.engines.bench import Story, tell, telling
from tests.engines.groups import KINDS, containment
from tests.engines.warm import WarmStory

from treadle.core.actions import Stop
from treadle.engines.agent import warm_pool
from treadle.engines.node.scope import Scope
from treadle.engines.node.warm_rank import Keeper, Refused, ask_for_rank

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root and a second user")
PYTHON = "/usr/bin/python3"
OTHER = 65534

ABOUT = """
import os, json
print(os.getresuid(), os.getresgid(), sorted(os.getgroups()), os.environ["USER"], os.umask(0))
"""


@pytest.fixture
def nobody(tmp_path: Path) -> dict[str, object]:
    """The details of jobs of a second user, who can work in the test's folder."""
    entry = pwd.getpwuid(OTHER)
    for folder in (tmp_path, *tmp_path.parents):
        if str(folder).startswith("/tmp/"):
            folder.chmod(0o755)
    return {"uid": entry.pw_uid, "gid": entry.pw_gid, "user": entry.pw_name}


# -- whose it is ----------------------------------------------------------------------------------


@as_root
@telling()
async def test_a_job_of_another_user_runs_as_that_user(
    bench: Story, nobody: dict[str, object]
) -> None:
    await bench.begin()
    warm = WarmStory(bench, **nobody)
    await warm.warm_up(python=(PYTHON,))
    warm.write("a.py", ABOUT)
    cold, hot = await warm.both(PYTHON, "a.py")
    assert hot.log == cold.log
    assert str(OTHER) in hot.log
    (pid,) = warm.templates[0].scope.pids()
    assert Path(f"/proc/{pid}").stat().st_uid == OTHER


@as_root
@telling()
async def test_users_do_not_share_one(bench: Story, nobody: dict[str, object]) -> None:
    await bench.begin()
    theirs, ours = WarmStory(bench, **nobody), WarmStory(bench)
    ours._orders = 100
    await theirs.warm_up(python=(PYTHON,))
    ours.write("a.py", "import os; print(os.getuid())")
    ran = await ours.run(PYTHON, "a.py")
    assert (ran.warm, ran.log) == (False, "0\n")
    await ours.warm_up(python=(PYTHON,), count=2)
    ran = await ours.run(PYTHON, "a.py")
    assert (ran.warm, ran.log) == (True, "0\n")
    ran = await theirs.run(PYTHON, "a.py")
    assert (ran.warm, ran.log) == (True, f"{OTHER}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_its_processes_are_in_the_group_of_the_attempt(tmp_path: Path, kind: str) -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
print("up", flush=True)
time.sleep(1000)
"""

    async def story(bench: Story) -> None:
        await bench.begin()
        bench.machine.groups.containment = contained
        bench.machine.warm.containment = contained
        warm = WarmStory(bench)
        await warm.warm_up(python=(PYTHON,))
        warm.write("a.py", code)
        job = await warm.start(PYTHON, "a.py", grace_s=0.1)
        live = bench.live(job)
        assert live.scope.kind == kind
        pids = await bench.until(lambda: (p := live.scope.pids()) and len(p) >= 3 and p)
        await bench.order(Stop(50, job))
        ended = await warm.end_of(job)
        assert (ended.warm, ended.status["codes"]) == (True, [128 + signal.SIGKILL])
        assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)

    with containment(kind) as contained:
        tell(tmp_path, story)


@telling()
async def test_a_killed_supervisor_takes_its_warm_ranks_along(bench: Story) -> None:
    await bench.begin()
    warm = WarmStory(bench)
    await warm.warm_up(python=(PYTHON,))
    warm.write("a.py", "import time, os; print(os.getpid(), flush=True); time.sleep(1000)")
    job = await warm.start(PYTHON, "a.py")
    pid = int(await bench.until(lambda: bench.log(job)))
    os.kill(bench.supervisor(job).pid, signal.SIGKILL)
    await bench.until(lambda: not Path(f"/proc/{pid}/exe").exists())


# -- growth ---------------------------------------------------------------------------------------


@telling()
async def test_there_are_at_most_so_many(bench: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_pool, "TEMPLATES_MAX", 2)
    await bench.begin()
    scopes: list[Scope] = []
    for number in range(3):
        warm = WarmStory(bench, env={"NUMBER": str(number)})
        warm._orders = 100 * number
        await warm.warm_up(python=(PYTHON,), count=min(2, number + 1))
        scopes += [each.scope for each in warm.templates if each.scope not in scopes]
    assert len(bench.machine.warm._templates) == 2
    assert scopes[0].pids() == []


@telling()
async def test_an_idle_one_ends(bench: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_pool, "IDLE_S", 0.3)
    await bench.begin()
    warm = WarmStory(bench)
    await warm.warm_up(python=(PYTHON,))
    await bench.until(lambda: not warm.templates or warm.templates[0].ended)


def test_none_is_left_when_the_engine_leaves(tmp_path: Path) -> None:
    pids: list[int] = []

    async def story(bench: Story) -> None:
        await bench.begin()
        warm = WarmStory(bench)
        await warm.warm_up(python=(PYTHON,))
        pids.extend(warm.templates[0].scope.pids())

    tell(tmp_path, story)
    assert pids
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in pids)


def test_one_whose_imports_start_threads_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "busy.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    )

    async def story(bench: Story) -> None:
        await bench.begin()
        warm = WarmStory(bench, env={"PYTHONPATH": str(folder)})
        warm.write(
            "a.py", "import busy, os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
        )
        job = await warm.start(PYTHON, "a.py")
        await bench.until(lambda: any(each.ended for each in warm.templates))
        (tmp_path / "go").touch()
        await warm.end_of(job)
        assert not (await warm.run(PYTHON, "a.py")).warm
        assert list(bench.machine.warm._given_up.values()) == ["an import started a thread"]

    tell(tmp_path, story)


# -- what root believes ---------------------------------------------------------------------------

Answer = Callable[[socket.socket], None]


@pytest.fixture
def scope(tmp_path: Path) -> Iterator[Scope]:
    with containment(KINDS[0] if os.geteuid() == 0 else KINDS[2]) as contained:
        made = contained.make(f"warm-test-{os.getpid()}", tmp_path).scope
        yield made
        made.kill()
        made.remove()


def _asked(scope: Scope, answer: Answer, *, uid: int) -> str:
    """What a supervisor makes of such an answer; empty if it goes on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            _, files, _, _ = socket.recv_fds(theirs, 4096, 4)
            answer(socket.socket(fileno=files[1]))
        finally:
            os._exit(0)
    order = {"command": ["python", "a.py"], "workdir": "/", "env": {}, "uid": uid}
    output, said = os.pipe2(os.O_CLOEXEC)
    try:
        keeper = ask_for_rank(ours, order, {"env": {}}, files=[output, said], scope=scope)
        keeper.close()
    except (Refused, OSError) as error:
        return str(error) or "refused"
    finally:
        for file in (output, said):
            os.close(file)
        for end in (ours, theirs):
            end.close()
        os.waitpid(pid, 0)
    return ""


@as_root
def test_a_process_of_another_user_is_not_moved(scope: Scope) -> None:
    def lie(channel: socket.socket) -> None:
        channel.send(b"keeper")
        channel.recv(16)

    assert _asked(scope, lie, uid=OTHER) == "keeper"
    assert scope.pids() == []


@as_root
def test_a_message_cannot_name_another_process(scope: Scope) -> None:
    """The kernel says who sent it; root alone may say otherwise, and the sender is not root."""

    def lie(channel: socket.socket) -> None:
        os.setuid(OTHER)
        about = [(socket.SOL_SOCKET, 2, (os.getppid()).to_bytes(4, sys.byteorder) + bytes(8))]
        try:
            channel.sendmsg([b"keeper"], about)
        except PermissionError:
            channel.send(b"cold not allowed")

    assert _asked(scope, lie, uid=OTHER) == "cold not allowed"
    assert scope.pids() == []


def test_a_process_that_died_is_not_moved(scope: Scope) -> None:
    """Its number may be another process's by now."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    pid = os.fork()
    if pid == 0:
        theirs.send(b"keeper")
        os._exit(0)
    os.waitpid(pid, 0)
    keeper = Keeper(ours, os.geteuid())
    with theirs, pytest.raises((OSError, Refused)):
        keeper.meet(scope)
    keeper.close()
    assert scope.pids() == []


def test_silence_is_not_waited_for(scope: Scope) -> None:
    def wait(channel: socket.socket) -> None:
        channel.recv(16)

    began = time.monotonic()
    assert "does not answer" in _asked(scope, wait, uid=os.geteuid())
    assert time.monotonic() - began < 10


def test_nonsense_is_refused(scope: Scope) -> None:
    def talk(channel: socket.socket) -> None:
        channel.send(b"\xff" * 400)

    assert _asked(scope, talk, uid=os.geteuid())


def test_a_keeper_of_the_right_user_is_moved(scope: Scope) -> None:
    def keep(channel: socket.socket) -> None:
        channel.send(b"keeper")
        assert channel.recv(16) == b"go"

    assert _asked(scope, keep, uid=os.geteuid()) == ""


@as_root
@telling()
async def test_a_tampered_keeper_ends_only_its_own_attempt(
    bench: Story, nobody: dict[str, object]
) -> None:
    """The script kills its keeper, which is its own user's."""
    await bench.begin()
    warm = WarmStory(bench, **nobody)
    await warm.warm_up(python=(PYTHON,))
    warm.write("a.py", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)")
    ran = await warm.run(PYTHON, "a.py")
    assert (ran.warm, ran.code) == (True, 137)
    warm.write("b.py", "print(1)")
    assert (await warm.run(PYTHON, "b.py")).log == "1\n"


@telling()
async def test_a_stopped_interpreter_is_not_waited_for(bench: Story) -> None:
    await bench.begin()
    warm = WarmStory(bench)
    await warm.warm_up(python=(PYTHON,))
    (pid,) = warm.templates[0].scope.pids()
    os.kill(pid, signal.SIGSTOP)
    warm.write("a.py", "print(1)")
    ran = await warm.run(PYTHON, "a.py")
    assert (ran.warm, ran.log) == (False, "1\n")
    # What it was asked for meanwhile is not launched when it goes on.
    os.kill(pid, signal.SIGCONT)
    ran = await warm.run(PYTHON, "a.py")
    assert (ran.warm, ran.log) == (True, "1\n")


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_versions_of_python(tmp_path: Path, version: str) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    if not found:
        pytest.skip(f"there is no Python {version} here")

    async def story(bench: Story) -> None:
        await bench.begin()
        warm = WarmStory(bench)
        await warm.warm_up(python=(str(found[0]),))
        warm.write("a.py", "import sys; print(sys.argv, __file__, sys.version, vars())\n1/0")
        cold, hot = await warm.both(str(found[0]), "a.py", "x")
        assert (_plain(hot.log), hot.code) == (_plain(cold.log), 1)

    tell(tmp_path, story)


def _plain(text: str) -> str:
    """Without the addresses of objects."""
    return " ".join("" if word.startswith("0x") else word for word in text.split())


@pytest.mark.slow
def test_torch_draws_other_numbers_in_every_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    async def story(bench: Story) -> None:
        await bench.begin()
        warm = WarmStory(bench)
        await warm.warm_up("import torch, numpy")
        warm.write(
            "a.py",
            "import torch, numpy, random\nprint(torch.rand(1).item(), numpy.random.rand())\n"
            "print(random.random(), torch.initial_seed())",
        )
        runs = [await warm.run("python", "a.py") for _ in range(3)]
        assert all(run.warm for run in runs), runs
        words = [word for run in runs for word in run.log.split()]
        assert len(set(words)) == len(words) == 12
        warm.write(
            "b.py",
            "import torch\ntorch.manual_seed(3)\nprint(torch.rand(3), torch.get_num_threads())",
        )
        cold, hot = await warm.both("python", "b.py")
        assert hot.log == cold.log

    tell(tmp_path, story)
