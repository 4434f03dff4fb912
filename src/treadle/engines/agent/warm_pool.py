"""The warm interpreters of this machine: which there are, who may use them, when they end.

A warm interpreter serves one user, one Python, one working directory and one environment: whatever
an import could have seen. Restarts of a job have all of these in common, and so do most jobs of a
sweep. Anything else is launched cold (docs/warm.md).
"""

import asyncio
import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from treadle.core.launch import Launch
from treadle.engines.agent.live_attempt import LiveAttempt
from treadle.engines.node.attempt_folders import AttemptFolders
from treadle.engines.node.cgroup import Containment
from treadle.engines.node.environment import TAG
from treadle.engines.node.fork_client import ForkServer
from treadle.engines.node.scope import Limits, RecordedScope, Scope

TEMPLATES_MAX = 4  # on this machine; the one that was not used for longest ends first
IDLE_S = 1800.0
BYTES_MAX = 4 << 30  # of one, with what its imports allocate
SPARE_BYTES = 4 << 30  # none begins on a machine with less memory to spare
CHECK_EVERY_S = 60.0
MESSAGE_BYTES = 256
PYTHON = re.compile(r"python(3(\.\d+)?)?")
# They differ between attempts and ranks, and no import looks at them.
OF_ONE_RANK = frozenset(
    {"RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"}
    | {"GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    | {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
)
OF_ONE_ATTEMPT = ("TREADLE_", "TORCHELASTIC_", "SLURM_")
# They make Python do more than run a script.
UNUSUAL = frozenset(
    {"PYTHONINSPECT", "PYTHONPROFILEIMPORTTIME", "COVERAGE_PROCESS_START"}
    | {"COVERAGE_PROCESS_CONFIG", "PYTHONDUMPREFS", "PYTHONSTARTUP"}
)

logger = logging.getLogger("treadle")


class Wish(NamedTuple):
    """A warm interpreter that a launch could use. It holds no secrets."""

    key: str  # launches with the same key can use the same one
    order: Mapping[str, Any]  # to begin it, but for its group


@dataclass(slots=True)
class Template:
    """One warm interpreter as the engine sees it."""

    control: socket.socket
    report: int
    scope: Scope
    used_at: float
    ready: bool = False
    ended: bool = False
    why: str = ""  # why it ended, if it said so
    stale: bool = False  # since its modules have changed: another one may be made

    def listen(self) -> None:
        """Read what it says; it is its user's, so only these words count."""
        while not self.ended:
            try:
                message = self.control.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            word, _, rest = message.partition(b" ")
            if word in (b"", b"ends", b"stale"):
                self.ended, self.why = True, rest.decode(errors="replace")
                self.stale = word == b"stale"
            self.ready = word == b"ready" or (self.ready and word != b"busy")

    def end(self) -> None:
        """End it, with what its imports may have started; ranks that it forked are elsewhere."""
        with suppress(OSError):
            self.control.close()
            os.close(self.report)
        self.scope.kill()
        for _ in range(100):
            if not self.scope.pids():
                break
            time.sleep(0.002)
        self.scope.remove()


@dataclass(slots=True)
class WarmPool:
    """Makes warm interpreters, and finds the one for a launch. Its calls may wait: use a thread."""

    folders: AttemptFolders
    containment: Containment
    fork_server: ForkServer
    enabled: bool = True
    # A job that ends at once is not worth one, and its first start should not be slowed down.
    prepare_after_s: float = 5.0
    _templates: dict[str, Template] = field(default_factory=dict)
    _given_up: dict[str, str] = field(default_factory=dict)  # key -> why it is not tried again
    _count: int = 0
    _watcher: "asyncio.Task[None] | None" = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wish(self, launch: Launch, document: Mapping[str, Any]) -> Wish | None:
        """The warm interpreter that this launch could use; None: it is launched cold."""
        if not self.enabled or not launch.warm or launch.launcher:
            return None
        python = python_of(document)
        if python is None:
            return None
        ranks = [_stable(launch, document, rank["env"]) for rank in document["ranks"]]
        cores = {len(rank["cpus"]) for rank in document["ranks"]}
        if len(cores) > 1 or any(rank != ranks[0] for rank in ranks) or ranks[0].keys() & UNUSUAL:
            return None
        user = [document["uid"], document["gid"], document["groups"]]
        about = [user, python, document["workdir"], sorted(ranks[0].items()), sorted(cores)]
        keys = ("uid", "gid", "groups", "command", "workdir")
        order = {key: document[key] for key in keys} | {
            "warm": True,
            "env": ranks[0],
            "cpus": document["ranks"][0]["cpus"],
            "unbuffered": document["command"][1:2] == ["-u"],
            "idle_s": IDLE_S,
            "bytes_max": BYTES_MAX,
        }
        return Wish(sha256(json.dumps(about).encode()).hexdigest(), order)

    def find(self, wish: Wish) -> socket.socket | None:
        """The socket of a warm interpreter that is ready; the caller closes it."""
        with self._lock:
            self._sweep()
            template = self._templates.get(wish.key)
            if template is None or not template.ready:
                return None
            template.used_at = time.monotonic()
            with suppress(OSError):
                return template.control.dup()
            return None

    def prepare(self, wish: Wish) -> None:
        """Begin a warm interpreter for launches to come, unless there is one."""
        with self._lock:
            self._sweep()
            if wish.key in self._templates or wish.key in self._given_up or not self.enabled:
                return
            if not _has_memory_to_spare():
                return
            while len(self._templates) >= TEMPLATES_MAX:
                oldest = min(self._templates, key=lambda each: self._templates[each].used_at)
                self._templates.pop(oldest).end()
            try:
                self._templates[wish.key] = self._begun(wish.order)
            except OSError as error:
                logger.warning("no warm interpreter could be started: %s", error)

    def prepare_later(self, wish: Wish, live: LiveAttempt) -> None:
        """Begin one when the attempt has run for a while, for the launches after it."""
        loop = asyncio.get_running_loop()

        def begin() -> None:
            if live.runs and self.enabled:
                self._watcher = self._watcher or loop.create_task(self._watch())
                loop.run_in_executor(None, self.prepare, wish)

        def wait(ready: "asyncio.Future[bool]") -> None:
            if not ready.cancelled() and ready.result():
                loop.call_later(self.prepare_after_s, begin)

        live.ready.add_done_callback(wait)

    async def clear(self) -> None:
        """End what an engine that was killed left."""
        await asyncio.to_thread(self.containment.kill, self._prefix)

    async def close(self) -> None:
        self.enabled = False
        if self._watcher is not None:
            self._watcher.cancel()
        await asyncio.to_thread(self._end_all)

    async def _watch(self) -> None:
        """End those that are idle, for as long as the engine runs."""
        while self.enabled:
            await asyncio.sleep(CHECK_EVERY_S)
            await asyncio.to_thread(self._swept)

    # -- leaves ---------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        """Of the tags of its groups; no attempt's begins so, whatever its job is called."""
        return f"{self.folders.instance}.warm-"

    def _begun(self, wanted: Mapping[str, Any]) -> Template:
        self._count += 1
        tag = f"{self._prefix}{os.getpid()}-{self._count}"
        folder = self.folders.root / "warm"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        limits = Limits(BYTES_MAX if "memory" in self.containment.limits else None)
        scope = self.containment.make(tag, folder, limits).scope
        if isinstance(scope, RecordedScope):
            scope = RecordedScope(f"{folder}/{tag}.json")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = {**wanted, "env": {**wanted["env"], TAG: tag}, "scope": scope.document()}
        try:
            sent = self.fork_server.launch(order, theirs.fileno())
        except OSError:
            ours.close()
            scope.remove()
            raise
        finally:
            theirs.close()
        return Template(ours, sent.report, scope, time.monotonic())

    def _end_all(self) -> None:
        with self._lock:
            while self._templates:
                self._templates.popitem()[1].end()

    def _swept(self) -> None:
        with self._lock:
            self._sweep()

    def _sweep(self) -> None:
        """Forget those that ended, and end those that are idle."""
        for key, template in list(self._templates.items()):
            template.listen()
            if template.ended and template.why and not template.stale:
                self._given_up[key] = template.why
                logger.info("jobs of one kind are launched cold: %s", template.why)
            if template.ended or time.monotonic() - template.used_at > IDLE_S:
                self._templates.pop(key).end()


def python_of(document: Mapping[str, Any]) -> list[object] | None:
    """The interpreter of a command that is `python [-u] script.py ...` or `python [-u] -m ...`."""
    command = document["command"]
    if PYTHON.fullmatch(Path(command[0]).name) is None:
        return None
    rest = command[1:]
    unbuffered = rest[:1] == ["-u"]
    rest = rest[1:] if unbuffered else rest
    named = rest[:1] == ["-m"] and len(rest) > 1 and not rest[1].startswith("-")
    if not named and not (rest and rest[0].endswith(".py") and not rest[0].startswith("-")):
        return None
    found = _executable(command[0], document["env"].get("PATH", os.defpath), document["workdir"])
    if found is None or not _is_plain(document["env"]):
        return None
    return [command[0], found, Path(found).stat().st_mtime_ns, unbuffered]


def _executable(name: str, path: str, workdir: str) -> str | None:
    folders = [""] if "/" in name else path.split(os.pathsep)
    for folder in folders:
        candidate = Path(workdir, folder, name)
        with suppress(OSError):
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return str(candidate)
    return None


def _is_plain(env: Mapping[str, str]) -> bool:
    """Whether modules are found in the same places wherever Python begins."""
    folders = env.get("PYTHONPATH", "")
    return not folders or all(folder.startswith("/") for folder in folders.split(os.pathsep))


def _stable(launch: Launch, document: Mapping[str, Any], rank: Mapping[str, str]) -> dict[str, str]:
    """The environment that imports may see: without secrets, and without what is one rank's."""
    return {
        name: value
        for name, value in {**document["env"], **rank}.items()
        if name not in launch.secrets
        and name not in OF_ONE_RANK
        and not name.startswith(OF_ONE_ATTEMPT)
    }


def _has_memory_to_spare() -> bool:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024 >= SPARE_BYTES
    return False
