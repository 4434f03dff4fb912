"""Scripts from a warm interpreter: they cannot tell, except by their first step."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.engines.bench import Story, on, tell, telling
from tests.engines.warm import WarmStory
from tests.telling import told_by

from treadle.core.actions import Change, Stop
from treadle.core.allocation import Pause
from treadle.core.events import JobPaused

SEEN = """
import json, os, signal, sys, threading, multiprocessing, random, logging
import resource, inspect
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "orig": sys.orig_argv, "file": __file__, "name": __name__,
    "names": sorted(vars(main)), "spec": str(__spec__), "package": str(__package__),
    "loader": type(__loader__).__name__, "cached": str(__cached__), "doc": __doc__,
    "path": sys.path, "executable": sys.executable, "prefix": sys.prefix,
    "flags": list(sys.flags), "cwd": os.getcwd(),
    "signals": {int(n): str(signal.getsignal(n)) for n in signal.valid_signals()},
    "mask": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    "stdin": os.read(0, 1).decode(), "stdin_tty": sys.stdin.isatty(),
    "stdout": [sys.stdout.seekable(), sys.stdout.encoding, sys.stdout.line_buffering,
               sys.stdout.write_through, sys.stdout.errors, sys.stderr.errors],
    "umask": os.umask(0o22), "uid": os.getresuid(), "gid": os.getresgid(),
    "groups": sorted(os.getgroups()), "leader": os.getpgid(0) == os.getpid(),
    "affinity": sorted(os.sched_getaffinity(0)),
    "limits": [resource.getrlimit(n) for n in range(16)],
    "priority": os.getpriority(os.PRIO_PROCESS, 0),
    "threads": [threading.active_count(), len(os.listdir("/proc/self/task"))],
    "main_thread": threading.current_thread() is threading.main_thread(),
    "native": threading.main_thread().native_id == os.getpid(),
    "process": multiprocessing.current_process().name,
    "parent": str(multiprocessing.parent_process()),
    "main_module": inspect.getmodule(inspect.currentframe()) is main,
    "hooks": [sys.excepthook is sys.__excepthook__, str(sys.gettrace()), len(sys.meta_path)],
    "treadle": sorted(n for n in sys.modules if n.startswith("treadle")),
    "cpu_s": sum(os.times()[:2]) < 30,
}))
"""


def _tell(root: Path, story, imports: str = "", **details) -> None:
    async def whole(bench: Story) -> None:
        await bench.begin()
        warm = WarmStory(bench, **details)
        await warm.warm_up(imports)
        await story(warm)

    tell(root, whole)


_telling = told_by(lambda story, root, *given, **details: _tell(root, story, *given, **details))


def test_a_script_sees_the_same_process(tmp_path: Path) -> None:
    async def whole(bench: Story) -> None:
        await bench.begin()
        story = WarmStory(bench)
        # `-u` is a flag of the interpreter itself: such scripts have one of their own.
        await story.warm_up(python=("python", "-u"))
        story.write("sub/empty.txt", "")
        story.write("seen.py", SEEN)
        (tmp_path / "link.py").symlink_to("sub/../seen.py")
        for command in (("seen.py", "1", "a b"), ("./sub/../seen.py",), ("link.py",)):
            cold, warm = await story.both("python", "-u", *command)
            assert json.loads(warm.log) == json.loads(cold.log)
            assert warm.code == cold.code == 0

    tell(tmp_path, whole)


def test_the_environment_is_the_jobs_own(tmp_path: Path) -> None:
    code = """
import os, json, subprocess
code = "import os, json; print(json.dumps(dict(os.environ)))"
below = json.loads(subprocess.check_output(["python3", "-c", code]))
shown = dict(x.split("=", 1) for x in open("/proc/self/environ").read().split("\\0") if "=" in x)
print(json.dumps([dict(os.environ), below, shown]))
"""

    async def story(bench: WarmStory) -> None:
        bench.write("seen.py", code)
        cold, warm = await bench.both("python", "seen.py", secrets={"KEY": "rather-secret"})
        seen = [json.loads(each.log) for each in (cold, warm)]
        for env in (*seen[0], *seen[1]):
            assert env["KEY"] == "***"  # masked in the log
            for own in (
                "TREADLE_ATTEMPT_TAG",
                "TREADLE_JOB_ID",
                "MASTER_PORT",
                "TORCHELASTIC_RUN_ID",
            ):
                env.pop(own, None)
            for own in (
                "TREADLE_CHECKPOINT_DIR",
                "TREADLE_CHANNEL",
                "TREADLE_MEETING",
                "TREADLE_MEMORY_DIR",
            ):
                env.pop(own)
        for cold_env, warm_env in zip(*seen, strict=True):
            assert warm_env == cold_env

    _tell(tmp_path, story)


@_telling(secrets={"KEY": "rather-secret"})
async def test_secrets_do_not_reach_the_warm_interpreter(bench: WarmStory) -> None:
    bench.write("a.py", "import os; print(len(os.environ['KEY']))")
    ran = await bench.run("python", "a.py", secrets={"KEY": "rather-secret"})
    assert (ran.warm, ran.log) == (True, "13\n")
    for pid in bench.templates[0].scope.pids():
        assert b"rather-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert b"rather-secret" not in _memory(pid)


def _memory(pid: int) -> bytes:
    found = b""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if line.split()[1].startswith("rw"):
                start, end = (int(word, 16) for word in line.split()[0].split("-"))
                memory.seek(start)
                found += memory.read(end - start)
    return found


ENDS = (
    ("import sys; sys.exit(7)", 7),
    ("import sys; sys.exit('sorry')", 1),
    ("import sys; sys.exit()", 0),
    ("raise SystemExit(300)", 44),
    ("raise SystemExit(None)", 0),
    ("import os; os._exit(9)", 9),
    ("def f():\n    raise ValueError('why')\nf()", 1),
    ("try:\n    1/0\nexcept ZeroDivisionError:\n    raise KeyError('x')", 1),
    ("raise KeyboardInterrupt", 130),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
    ("import atexit, sys\natexit.register(print, 'bye')\nsys.exit(4)", 4),
    ("import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1/0", 1),
    ("import sys\ndef hook(*a): raise TypeError('in hook')\nsys.excepthook = hook\n1/0", 1),
    ("import threading\nthreading.Thread(target=lambda: print('late')).start()", 0),
    ("print('no newline', end='')", 0),
    ("x: int = 3\nprint(__annotations__)", 0),
    ("import warnings; warnings.warn('old', DeprecationWarning)", 0),
    ("# coding: latin-1\nprint('\\xe4')", 0),
    ("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", 0),
)


@_telling()
async def test_a_script_ends_the_same(bench: WarmStory) -> None:
    for number, (code, expected) in enumerate(ENDS):
        bench.write(f"a{number}.py", code)
        cold, warm = await bench.both("python", f"a{number}.py")
        assert warm.log == cold.log, code
        assert warm.code == cold.code == expected, code


@_telling()
async def test_a_module_is_run_as_with_m(bench: WarmStory) -> None:
    bench.write("tools/__init__.py", "")
    bench.write(
        "tools/work.py",
        "import sys\nfrom tools import __name__ as n\n"
        "print(__name__, __file__, __spec__.name, __package__, sys.argv, sys.path[0], n)\n1/0",
    )
    cold, warm = await bench.both("python", "-m", "tools.work", "x")
    assert (warm.log, warm.code) == (cold.log, cold.code)
    cold, warm = await bench.both("python", "-m", "absent")
    assert (warm.log, warm.code) == (cold.log, cold.code)


def test_multiprocessing_works(tmp_path: Path) -> None:
    code = """
import multiprocessing, os, sys
def work(x):
    key = multiprocessing.current_process().authkey
    return x * 2, __name__, os.path.basename(sys.argv[0]), len(key)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(sorted(pool.map(work, range(3))))
    queue = context.Queue()
    child = context.Process(target=queue.put, args=("hello",))
    child.start(); print(queue.get()); child.join(); print(child.exitcode)
"""

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        for method in ("spawn", "fork", "forkserver"):
            cold, warm = await bench.both("python", "a.py", method)
            assert (warm.log, warm.code) == (cold.log, 0)
            assert "hello" in warm.log

    _tell(tmp_path, story, "import multiprocessing.pool")


def test_random_numbers_differ(tmp_path: Path) -> None:
    code = """
import random, os, tempfile, uuid, multiprocessing
print(random.random(), uuid.uuid4(), multiprocessing.current_process().authkey.hex())
print(next(tempfile._get_candidate_names()))
"""

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        runs = [await bench.run("python", "a.py") for _ in range(3)]
        assert all(run.warm for run in runs)
        words = [word for run in runs for word in run.log.split()]
        assert len(set(words)) == len(words) == 12

    _tell(tmp_path, story, "import random, tempfile, uuid, multiprocessing")


def test_a_stop_reaches_the_script(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
def leave(*_):
    print("leaving", flush=True); sys.exit(143)
signal.signal(signal.SIGTERM, leave)
print("up", flush=True)
while True: time.sleep(0.01)
"""

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        job = await bench.start("python", "a.py")
        await bench.bench.until(lambda: "up" in bench.bench.log(job))
        await bench.bench.order(Stop(50, job))
        ended = await bench.end_of(job)
        assert (ended.warm, ended.log) == (True, "up\nleaving\n")
        assert ended.status["cause"] == "stopped"

    _tell(tmp_path, story)


@_telling()
async def test_a_job_outlives_the_warm_interpreter_and_the_engine(
    bench: WarmStory, tmp_path: Path
) -> None:
    bench.write(
        "a.py", "import os, time\nwhile not os.path.exists('end'): time.sleep(0.01)\nexit(5)"
    )
    job = await bench.start("python", "a.py")
    template = bench.templates[0]
    (pid,) = template.scope.pids()
    os.kill(pid, signal.SIGKILL)
    await bench.bench.until(lambda: not template.scope.pids())
    (tmp_path / "end").touch()
    ended = await bench.end_of(job)
    assert (ended.warm, ended.code) == (True, 5)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"a.py": "import os\nos.environ['X_Y'] = '1'\nimport json"}, "sets the variable X_Y"),
        ({"a.py": "import own", "own.py": "import os\nos.environ.setdefault('Z', '')"}, "Z"),
        ({"a.py": "print(1)", "select.py": ""}, "select.py has the name"),
        ({"a.py": "print(1)", "json/__init__.py": ""}, "json has the name"),
    ],
)
@_telling()
async def test_what_could_differ_is_launched_cold(
    bench: WarmStory, files: dict[str, str], why: str
) -> None:
    for name, text in files.items():
        bench.write(name, text)
    ran = await bench.run("python", "a.py")
    assert (ran.warm, ran.code) == (False, 0)
    assert why in ran.status["cold"]


@_telling()
async def test_other_commands_are_launched_cold(bench: WarmStory) -> None:
    bench.write("a.py", "print(1)")
    for command in (
        ("python", "-c", "print(1)"),
        ("python", "-I", "a.py"),
        ("python", "-O", "a.py"),
        ("sh", "-c", "python3 a.py"),
        ("env", "python3", "a.py"),
    ):
        ran = await bench.run(*command)
        assert (ran.warm, ran.log) == (False, "1\n"), command


def test_a_changed_module_ends_the_warm_interpreter(tmp_path: Path) -> None:
    """A package that was upgraded is imported anew."""

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", "import changing; print(changing.V)")
        (folder / "changing.py").write_text("V = 1")
        await bench.warm_up("import changing")
        ran = await bench.run("python", "a.py")
        assert (ran.warm, ran.log) == (True, "1\n")
        (folder / "changing.py").write_text("V = 22")
        ran = await bench.run("python", "a.py")
        assert (ran.warm, ran.log) == (False, "22\n")
        assert "changed" in ran.status["cold"]
        await bench.warm_up("import changing")
        ran = await bench.run("python", "a.py")
        assert (ran.warm, ran.log) == (True, "22\n")

    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)

    async def whole(bench: Story) -> None:
        await bench.begin()
        await story(WarmStory(bench, env={"PYTHONPATH": str(folder)}))

    tell(tmp_path, whole)


def test_it_learns_what_scripts_import_later(tmp_path: Path) -> None:
    code = "import sys; print('colorsys' in sys.modules)\nimport os\n__import__('colorsys')"

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        first = await bench.run("python", "a.py")
        assert (first.warm, first.log) == (True, "False\n")
        await bench.bench.until(lambda: bench.templates[0].ready)

        async def again() -> str:
            return (await bench.run("python", "a.py")).log

        for _ in range(20):
            if await again() == "True\n":
                return
        raise AssertionError("it learned nothing")

    _tell(tmp_path, story)


def test_no_descriptor_leaks(tmp_path: Path) -> None:
    code = """
import os
names = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
print(sorted(os.readlink(name).split(":")[0] for name in names if os.path.exists(name)))
"""

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        runs = [await bench.run("python", "a.py") for _ in range(3)]
        # Besides the standard ones there is its line to the supervisor, as in any rank, and the
        # pipe on which it says what it imported.
        assert {run.log for run in runs} == {"['/dev/null', 'pipe', 'pipe', 'pipe', 'socket']\n"}
        (pid,) = bench.templates[0].scope.pids()
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 16

    _tell(tmp_path, story)


@_telling()
async def test_ranks_of_one_job_are_all_warm(bench: WarmStory) -> None:
    bench.write("a.py", "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'])")
    ran = await bench.run("python", "a.py", ranks=3)
    assert ran.status["warm"] == 3
    assert [bench.bench.log("job-2", rank=rank) for rank in range(3)] == ["0 3\n", "1 3\n", "2 3\n"]


def test_a_failed_rank_stops_the_others(tmp_path: Path) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1': exit(3)\nwhile True: time.sleep(0.01)"

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        ran = await bench.run("python", "a.py", ranks=2)
        assert (ran.status["warm"], ran.code, ran.status["first"]) == (2, 3, 1)

    _tell(tmp_path, story)


def test_a_rank_that_is_killed_while_it_is_paused_ends_its_job(tmp_path: Path) -> None:
    """Its keeper stands still with it, and tells nobody."""
    code = "import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(0.01)"

    async def story(bench: WarmStory) -> None:
        bench.write("a.py", code)
        job = await bench.start("python", "a.py")
        said = await bench.bench.until(lambda: bench.bench.log(job))
        await bench.bench.order(Change(9, job, on(0).as_paused(Pause.FROZEN)))
        facts = bench.bench.jobs.facts
        await bench.bench.until(lambda: any(isinstance(fact, JobPaused) for fact in facts))
        os.kill(int(said), signal.SIGKILL)
        ran = await bench.end_of(job)
        assert (ran.warm, ran.code, ran.status["codes"]) == (True, 137, [137])

    _tell(tmp_path, story)


@telling()
async def test_off_means_off(bench: Story) -> None:
    await bench.begin()
    bench.machine.warm.enabled = False
    warm = WarmStory(bench)
    warm.write("a.py", "print(1)")
    for _ in range(2):
        assert not (await warm.run("python", "a.py")).warm
    assert warm.templates == []


def test_what_imports_print_is_printed_by_the_script(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "loud.py").write_text("import sys; print('careful', file=sys.stderr)")

    async def story(bench: Story) -> None:
        await bench.begin()
        warm = WarmStory(bench, env={"PYTHONPATH": str(folder)})
        warm.write("a.py", "import loud; print('on')")
        await warm.warm_up("import loud")
        cold, hot = await warm.both("python", "a.py")
        assert hot.log == cold.log == "careful\non\n"

    tell(tmp_path, story)
