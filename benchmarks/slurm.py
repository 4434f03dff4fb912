"""A temporary Slurm on loopback, for one measurement.

Everything is in one temporary folder: the munge key and socket, the configuration, the state, the
logs. One node claims as many CPUs as slots, without accounting, limits or control groups, so the
measurement covers queueing, starting and ending. It needs no root and changes nothing on the
machine. In all cases the daemons and their children are stopped and the folder is removed.

Slurm schedules at intervals: about every three seconds by default, about every second with the
parameters below, the shortest interval that Slurm allows. Each time it fills the free slots once,
so 16 slots of no-op jobs give about 16 jobs a second, however idle the machine is. Jobs that run
longer than a second are not affected.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel")
# The daemons are in folders that only root's search path has.
ADMINISTRATION = ("/usr/local/sbin", "/usr/sbin", "/sbin")
SCHEDULER_PARAMETERS = "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1"
START_LIMIT_S = 30.0
COMMAND_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
# 1,000 jobs take about a minute; five a second is the slowest rate that is still reported.
JOB_LIMIT_S = 0.2
LOOK_S = 0.1


class SlurmError(Exception):
    """Slurm is not installed, does not start, or fails; the text says why."""


@dataclass(frozen=True)
class Slurm:
    """A running Slurm."""

    folder: Path
    programs: Mapping[str, str]
    environment: Mapping[str, str]

    def call(self, program: str, *arguments: str) -> str:
        """The output of a client program."""
        try:
            done = subprocess.run(
                [self.programs[program], *arguments],
                env=self.environment,
                cwd=self.folder,
                check=True,
                capture_output=True,
                text=True,
                timeout=COMMAND_LIMIT_S,
            )
        except subprocess.CalledProcessError as error:
            raise SlurmError(f"{program} failed: {_last_line(error.stderr)}") from error
        except subprocess.TimeoutExpired as error:
            raise SlurmError(f"{program} gave no answer in {COMMAND_LIMIT_S:g} s") from error
        return done.stdout

    def submit(self, *options: str) -> None:
        self.call("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=true")

    def states(self) -> Counter[str]:
        """The number of jobs in each state; each member of an array counts."""
        text = self.call("squeue", "--noheader", "--array", "--states=all", "--format=%T")
        return Counter(text.split())

    def busy(self) -> bool:
        """Whether any job is pending, running or completing."""
        return bool(self.call("squeue", "--noheader", "--format=%i").strip())


def jobs_per_second(count: int, slots: int, *, array: bool) -> float:
    """The rate of no-op jobs in a temporary Slurm, from the first submission to the last end.

    Each job is one call of `sbatch`, or all are one job array.
    """
    with running(count, slots) as slurm:
        begun = time.perf_counter()
        if array:
            slurm.submit(f"--array=0-{count - 1}")
        else:
            for _ in range(count):
                slurm.submit()
        limit_s = START_LIMIT_S + JOB_LIMIT_S * count
        while slurm.busy():
            if time.perf_counter() - begun > limit_s:
                raise SlurmError(f"after {limit_s:g} s the jobs are {dict(slurm.states())}")
            time.sleep(LOOK_S)
        took_s = time.perf_counter() - begun
        if slurm.states() != {"COMPLETED": count}:
            raise SlurmError(f"not all {count} jobs completed: {dict(slurm.states())}")
    return count / took_s


def version() -> str:
    """The version of the installed Slurm."""
    command = [_installed()["slurmctld"], "-V"]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=COMMAND_LIMIT_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SlurmError(f"cannot be started: {error}") from error
    return done.stdout.strip()


@contextmanager
def running(count: int, slots: int) -> Iterator[Slurm]:
    """A temporary Slurm with one node of `slots` slots, and a queue for `count` jobs."""
    programs = _installed()
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        folder = Path(name)
        environment = {
            variable: value
            for variable, value in os.environ.items()
            if not variable.startswith(("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_"))
        }
        environment["SLURM_CONF"] = f"{folder}/slurm.conf"
        slurm = Slurm(folder, programs, environment)
        _prepare(folder, count, slots)
        stack.callback(_end_everything, folder)
        started = {
            "munged": stack.enter_context(_daemon(slurm, "munged", _munge_options(folder))),
        }
        _until((folder / "munge.socket").exists, started, folder)
        for daemon, options in (("slurmctld", ["-D"]), ("slurmd", ["-D", "-N", "node"])):
            started[daemon] = stack.enter_context(_daemon(slurm, daemon, options))
        _until(lambda: _is_idle(slurm), started, folder)
        stack.callback(_cancel_all, slurm)
        yield slurm


def _installed() -> dict[str, str]:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *ADMINISTRATION))
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    if missing := [name for name, place in found.items() if place is None]:
        raise SlurmError(f"not installed: {', '.join(missing)}")
    return {name: place for name, place in found.items() if place is not None}


def _prepare(folder: Path, count: int, slots: int) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    (folder / "slurm.conf").write_text(configuration(folder, count, slots, _free_ports()))


def configuration(folder: Path, count: int, slots: int, ports: tuple[int, int]) -> str:
    """The text of `slurm.conf`."""
    host = socket.gethostname().partition(".")[0]
    return f"""\
ClusterName=benchmark
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={os.getuid()}
SlurmdUser={os.getuid()}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters={SCHEDULER_PARAMETERS}
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=86400
MaxJobCount={count + 1000}
MaxArraySize={count + 1}
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=INFINITE State=UP
"""


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _munge_options(folder: Path) -> list[str]:
    # Forced, because munged requires a world-accessible folder; this one is private.
    own = ("key-file=munge.key", "socket=munge.socket", "pid-file=munge.pid", "seed-file=seed")
    places = [f"--{name}={folder}/{file}" for name, file in (pair.split("=") for pair in own)]
    return ["--foreground", "--force", *places]


@contextmanager
def _daemon(slurm: Slurm, name: str, options: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a daemon in the foreground, with its output in a file and in its own session."""
    with (slurm.folder / f"{name}.out").open("wb") as words:
        process = subprocess.Popen(
            [slurm.programs[name], *options],
            env=slurm.environment,
            cwd=slurm.folder,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(
    ready: Callable[[], bool], started: Mapping[str, "subprocess.Popen[bytes]"], folder: Path
) -> None:
    """Wait for a condition, up to a limit; fail at once if a daemon has ended."""
    deadline = time.monotonic() + START_LIMIT_S
    while not ready():
        for name, process in started.items():
            if process.poll() is not None:
                why = _last_line((folder / f"{name}.out").read_text(errors="replace"))
                raise SlurmError(f"cannot be started: {name} ended: {why}")
        if time.monotonic() > deadline:
            raise SlurmError(f"cannot be started: not ready after {START_LIMIT_S:g} s")
        time.sleep(LOOK_S)


def _is_idle(slurm: Slurm) -> bool:
    try:
        return slurm.call("sinfo", "--noheader", "--format=%T").strip() == "idle"
    except SlurmError:
        return False  # The controller does not answer yet.


def _cancel_all(slurm: Slurm) -> None:
    """Cancel the jobs of an interrupted measurement while the daemons still run."""
    try:
        if slurm.busy():
            slurm.call("scancel", f"--user={os.getuid()}")
    except SlurmError:
        return  # `_end_everything` stops the rest.


def _end_everything(folder: Path) -> None:
    """Kill processes that outlive the daemons: the step that runs a job, and the job.

    Only these processes have the path of the configuration in their environment. The
    search is repeated until it finds nothing, because a process may start another meanwhile.
    """
    mark = f"SLURM_CONF={folder}/slurm.conf".encode()
    deadline = time.monotonic() + STOP_LIMIT_S
    while (found := _marked(mark)) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # It has ended, or belongs to another user.
            if mark in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
    return found


def _last_line(text: str) -> str:
    """The last line that mentions an error, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (errors or lines or ["no reason given"])[-1]
