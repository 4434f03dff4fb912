"""Slurm on loopback, for as long as one measurement takes.

Everything is its own and lies in one temporary folder: the munge key and socket, the configuration,
the state, the logs. One node claims as many CPUs as there are slots, nothing is accounted, and no
limits or control groups are set, so what is timed is queueing, starting and ending. Neither root
nor a change to the machine is needed. Whatever happens, the daemons and what they started are
ended and the folder is removed.

Slurm looks at its queue by the clock: about every third second as shipped, about every second with
the parameters below, which ask for a look as often as Slurm allows. A look fills the free slots
once, so 16 slots of no-op jobs make some 16 jobs a second, however idle the machine is; jobs that
run longer than a second are not held back by this.
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
# Daemons live where only root's search path leads.
ADMINISTRATION = ("/usr/local/sbin", "/usr/sbin", "/sbin")
SCHEDULER_PARAMETERS = "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1"
START_LIMIT_S = 30.0
COMMAND_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
# 1,000 jobs take about a minute; as slow as five a second is still a figure.
JOB_LIMIT_S = 0.2
LOOK_S = 0.1


class SlurmError(Exception):
    """Slurm is not here, does not start, or does not do what it was asked; the text is why."""


@dataclass(frozen=True)
class Slurm:
    """A Slurm that runs."""

    folder: Path
    programs: Mapping[str, str]
    environment: Mapping[str, str]

    def call(self, program: str, *arguments: str) -> str:
        """What a client program prints."""
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
        """How many jobs, each member of an array counted, are in which state."""
        text = self.call("squeue", "--noheader", "--array", "--states=all", "--format=%T")
        return Counter(text.split())

    def busy(self) -> bool:
        """Whether a job waits, runs or is being put away."""
        return bool(self.call("squeue", "--noheader", "--format=%i").strip())


def jobs_per_second(count: int, slots: int, *, array: bool) -> float:
    """The rate of no-op jobs, from the first submission to the last end, by a Slurm of their own.

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
    """What is installed, in Slurm's own words."""
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
    """A Slurm of its own with one node of so many slots, and room for so many jobs."""
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
    # Forced, because munged wants a folder that everybody may enter; this one is nobody else's.
    own = ("key-file=munge.key", "socket=munge.socket", "pid-file=munge.pid", "seed-file=seed")
    places = [f"--{name}={folder}/{file}" for name, file in (pair.split("=") for pair in own)]
    return ["--foreground", "--force", *places]


@contextmanager
def _daemon(slurm: Slurm, name: str, options: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A daemon in the foreground, its words in a file, and out of reach of the terminal's keys."""
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
    """Wait until something is so, but not for a daemon that has ended, and not for ever."""
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
    """End what an interrupted measurement left, while there are daemons to do it."""
    try:
        if slurm.busy():
            slurm.call("scancel", f"--user={os.getuid()}")
    except SlurmError:
        return  # What is left is ended by `_end_everything`.


def _end_everything(folder: Path) -> None:
    """Kill what outlives the daemons: the step that runs a job, and the job.

    All of them, and nobody else, have the path of the configuration in their environment. The
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
        with suppress(OSError):  # It has ended by itself, or is another user's.
            if mark in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
    return found


def _last_line(text: str) -> str:
    """The last line that speaks of an error, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    return (errors or lines or ["no reason given"])[-1]
