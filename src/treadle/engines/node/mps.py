"""CUDA MPS for jobs that may share a GPU: a control daemon of our own.

Without MPS the jobs on one GPU take turns; with it their kernels run at the same time, which is
worth 20 to 50 % more. A process that runs without MPS cannot be moved under it, so the decision is
made at the launch: every job that may share (the policy shares, the job is not exclusive) starts
under MPS, because its company may come later. Jobs that never share start without it: an MPS server
is one more thing that can fail.

A daemon serves one user only, with its own pipe and log folders below the state folder. It is used
for jobs of the user that Treadle runs as. Jobs that a root daemon runs as other users share without
MPS: root would have to work in folders that they own, and one user's daemon that hangs would be
everybody's trouble. It is started with the first job that needs it and ends with the last. It
outlives this process, as jobs do. If it does not answer within a deadline, asked several times, it
is killed, and jobs share without MPS from then on.
"""

import asyncio
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from treadle.core.allocation import Allocation
from treadle.core.launch import AttemptId, Launch
from treadle.core.ports import Clock
from treadle.engines.node import processes
from treadle.engines.node.environment import TAG

PROGRAM = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
MEMORY_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
ANSWER_WITHIN_S = 5.0
START_WITHIN_S = 15.0
GONE_WITHIN_S = 5.0  # a process that was killed
ASKED = 3  # times before a daemon that does not answer is given up
CHECK_EVERY_S = 15.0
PATH_BYTES_MAX = 90  # the daemon makes sockets there, whose paths may have 107 bytes
MARK = "mps"  # a file in the folder of an attempt that was launched under MPS

_INHERITED = ("PATH", "LD_LIBRARY_PATH")  # where the driver's programs and libraries are

logger = logging.getLogger("treadle")


class MpsError(Exception):
    """The daemon cannot be used; one sentence."""


class MpsDaemon:
    """The control daemon of our own user. Calls block: run them in a thread."""

    def __init__(self, folder: Path, program: str, *, tag: str) -> None:
        """tag: marks its processes in their environment."""
        self._folder = folder
        self._program = program
        self._tag = tag
        self.answer_within_s = ANSWER_WITHIN_S

    @property
    def pipes(self) -> Path:
        return self._folder / "pipe"

    @property
    def environment(self) -> dict[str, str]:
        """What its clients need."""
        return {PIPES: str(self.pipes), LOGS: str(self._folder / "log")}

    def start(self) -> None:
        """Start it, unless it runs. Raises MpsError if it does not come up."""
        if self.runs():
            return
        if len(os.fsencode(self.pipes)) > PATH_BYTES_MAX:
            raise MpsError(f"the path {self.pipes} is too long for its sockets")
        try:
            self._make_folders()
            code, said = self._launch()
        except (OSError, subprocess.TimeoutExpired) as error:
            self.kill()
            raise MpsError(f"{PROGRAM} cannot be started: {error}") from error
        if code != 0:
            raise MpsError(f"{PROGRAM} -d failed: {said.strip()[:200]}")
        self.servers()

    def runs(self) -> bool:
        """Whether a daemon of ours is there, also one of an earlier engine."""
        return (self.pipes / "control").exists() and bool(processes.tagged(TAG, self._tag))

    def servers(self) -> tuple[int, ...]:
        """The pids of its servers. Raises MpsError if it does not answer."""
        lines = self.ask("get_server_list").split()
        return tuple(int(word) for word in lines if word.isascii() and word.isdigit())

    def ask(self, command: str) -> str:
        """The answer to a command of its protocol. Raises MpsError if there is none in time."""
        try:
            done = self._call(f"{command}\n", self.answer_within_s)
        except subprocess.TimeoutExpired:
            raise MpsError(
                f"the MPS daemon has not answered for {self.answer_within_s:g} s"
            ) from None
        except OSError as error:
            raise MpsError(f"{PROGRAM} cannot be run: {error}") from error
        if done.returncode != 0:
            raise MpsError(f"the MPS daemon refused {command}: {done.stderr.strip()[:200]}")
        return done.stdout

    def stop(self) -> None:
        """Take it down: it is asked first, and killed if it does not go."""
        with suppress(MpsError):
            self.ask("quit")
        self.kill()

    def kill(self) -> None:
        """Kill the daemon and its servers, and remove its folder."""
        give_up_at = time.monotonic() + GONE_WITHIN_S
        while processes.kill_tagged(TAG, self._tag) and time.monotonic() < give_up_at:
            time.sleep(0.02)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, given: str, within_s: float) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self._program],
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
            env=self._own_environment(),
            start_new_session=True,
        )

    def _launch(self) -> tuple[int, str]:
        """The exit code and the words of `-d`. A file takes them: the daemon keeps it open."""
        said = self._folder / "start.txt"
        with said.open("wb") as file:
            done = subprocess.run(
                [self._program, "-d"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=START_WITHIN_S,
                check=False,
                env=self._own_environment(),
                start_new_session=True,
            )
        return done.returncode, said.read_text(errors="replace")

    def _own_environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {"PATH": os.defpath, **kept, **self.environment, TAG: self._tag}

    def _make_folders(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)  # Sockets of a daemon that was killed.
        for folder in (self._folder, self.pipes, self._folder / "log"):
            folder.mkdir(mode=0o700, parents=True)


class Mps:
    """The MPS daemon of one node, and the attempts that need it."""

    def __init__(self, root: Path, instance: str, program: str | None) -> None:
        """program: None if this node has no MPS."""
        self._root = root / "mps"
        self._instance = instance
        self._program = program
        self._served: MpsDaemon | None = None
        self._clients: set[AttemptId] = set()
        self._lock = Lock()
        self.broken = ""  # why MPS is not used any more

    @classmethod
    def here(cls, root: Path, instance: str, kind: str) -> "Mps":
        """For the devices of this machine; without GPUs or the program it never does anything."""
        return cls(root, instance, shutil.which(PROGRAM) if kind == "gpu" else None)

    def is_client(self, attempt: AttemptId) -> bool:
        return attempt in self._clients

    def join(self, launch: Launch, allocation: Allocation, folder: Path) -> dict[str, str]:
        """The environment of an attempt under MPS; empty if it starts without."""
        if self._program is None or self.broken or not launch.may_share or PIPES in launch.env:
            return {}
        if launch.uid not in (None, os.geteuid()):
            return {}
        with self._lock:
            daemon = self._daemon()
            try:
                daemon.start()
                (folder / MARK).touch()
            except (MpsError, OSError) as error:
                if self._clients:  # Those that run are not to pay for it.
                    logger.warning("an attempt starts without CUDA MPS: %s", error)
                else:
                    self._give_up(str(error))
                return {}
            self._clients.add(launch.id)
        return {**daemon.environment, **_memory_limit(launch, allocation)}

    def adopt(self, attempt: AttemptId, folder: Path) -> None:
        """Count an attempt of an earlier engine, if it runs under MPS."""
        if self._program is None:
            return
        with self._lock, suppress(OSError):
            if (folder / MARK).exists():
                self._daemon()
                self._clients.add(attempt)

    def leave(self, attempt: AttemptId) -> None:
        """The attempt is over; the last one takes its daemon down."""
        with self._lock:
            if attempt not in self._clients:
                return
            self._clients.discard(attempt)
            if not self._clients and self._served is not None:
                self._served.stop()
                self._served = None

    def check(self) -> None:
        """Ask the daemon whether it is alive; one that hangs is killed, and MPS is given up.

        Its clients fail then. Those that shared run again at the scheduler's cost (failures/).
        """
        with self._lock:
            for left in reversed(range(ASKED)):
                if self._served is None:
                    return
                try:
                    self._served.servers()
                except MpsError as error:
                    if not left:  # Jobs die with it, so it is not given up for one silence.
                        self._give_up(str(error))
                else:
                    return

    async def watch(self, clock: Clock) -> None:
        """Check the daemons every now and then, for as long as the engine runs."""
        while self._program is not None and not self.broken:
            await clock.sleep_until(clock.now() + CHECK_EVERY_S)
            if self._served is not None:
                await asyncio.to_thread(self.check)

    def _give_up(self, why: str) -> None:
        logger.error("CUDA MPS is not used any more: %s", why)
        self.broken = why
        if self._served is not None:
            self._served.kill()
        self._served = None
        self._clients.clear()

    def _daemon(self) -> MpsDaemon:
        if self._served is None:
            assert self._program is not None
            tag = f"{self._instance}-mps-{os.geteuid()}"
            self._served = MpsDaemon(self._root / str(os.geteuid()), self._program, tag=tag)
        return self._served


def _memory_limit(launch: Launch, allocation: Allocation) -> Mapping[str, str]:
    """The most memory that the job may allocate on each GPU, if its user said what it needs.

    A client may count its GPUs itself or as the server does, so both numbers get the limit.
    """
    if launch.device_memory_gib is None:
        return {}
    numbers = {*range(allocation.size), *(device.number for device in allocation.devices)}
    amount = f"{round(launch.device_memory_gib * 1024)}M"
    return {MEMORY_LIMIT: ",".join(f"{number}={amount}" for number in sorted(numbers))}
