"""A real Ray cluster of four nodes, each in a network namespace if there are any, to be hurt.

Nodes are started by `ray start --block`, as an administrator would, and started again when they
have ended, as a service manager would.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.on_ray.chaos_network import Loopback, Namespaces, Network
from tests.on_ray.chaos_plan import HEAD, NODES, SLOTS
from tests.on_ray.cluster import TOKEN
from treadle.engines.clusters.ray.address import surroundings
from treadle.engines.node import processes
from treadle.engines.node.processes import ProcessId

ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-m")
MARK = "TREADLE_CHAOS"  # a variable that all processes of a cluster have, except jobs
LOOK_S = 0.2
PATIENCE_S = 240.0
EYES = 3  # how often it is tried to ask Ray
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    # A node that is cut off is missed within ten seconds, one whose raylet died within three.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
    # Workers that nobody uses cost a second of a core each.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}


class ChaosNode:
    def __init__(self, name: str) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None  # ray start
        self.is_cut = False
        self.back_at = 0.0  # it is not started again before, by the monotonic clock


class ChaosCluster:
    """From `start` to `end`. Its methods may be called from any thread."""

    def __init__(self, number: int = 0, *, cuts: bool = True) -> None:
        """cuts: nodes can be cut off, which needs root and more (chaos_network.why_not)."""
        self.folder = Path(tempfile.mkdtemp(prefix="tc-"))  # Paths of sockets are short.
        self.mark = self.folder.name
        (self.folder / "ray").mkdir()
        token = self.folder / "token"
        token.touch(0o600)
        token.write_text(TOKEN)
        self.cuts = cuts
        self.network: Network = Namespaces(number, NODES) if cuts else Loopback(NODES)
        self.address = f"{self.network.addresses[HEAD]}:{self.network.port}"
        self._nodes = {name: ChaosNode(name) for name in NODES}
        self._eye: subprocess.Popen[str] | None = None
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep_up, name="service manager", daemon=True)
        self._lock, self._end_lock = threading.Lock(), threading.Lock()

    def through(self, node: str) -> tuple[str, ...]:
        """Words before a command on that node: its namespace and its environment."""
        own = {
            **SETTINGS,
            **surroundings(self.address),
            "RAY_TMPDIR": str(self.folder),
            "RAY_AUTH_TOKEN_PATH": str(self.folder / "token"),
            MARK: self.mark,
        }
        words = [f"{name}={value}" for name, value in own.items()]
        return (*self.network.through(node), *self._own_disk(node), "env", *words)

    def _own_disk(self, node: str) -> tuple[str, ...]:
        """Ray's folder has the same path on all nodes; on other machines it is another folder."""
        if node == HEAD or not self.cuts:
            return ()
        own = self.folder / "disks" / node
        own.mkdir(parents=True, exist_ok=True)
        mounted = 'mount --bind "$0" "$1" && shift && exec "$@"'
        return ("unshare", "--mount", "sh", "-c", mounted, str(own), str(self.folder / "ray"))

    # -- beginning ------------------------------------------------------------------------------

    def start(self) -> None:
        self._keeper.start()  # On a busy machine a start may fail, for Ray's patience is short.
        for names in ((HEAD,), NODES[1:]):
            for name in names:
                self._start(self._nodes[name])
            for name in names:
                self._until(lambda name=name: self._is_up(name), f"Ray did not start on {name}")
        self._until(self.is_whole, "not all nodes joined")

    def _open_eye(self) -> "subprocess.Popen[str]":
        with self._log("eye") as log:
            return subprocess.Popen(
                [*self.through(HEAD), *PYTHON, "tests.on_ray.chaos_eye", self.address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
            )

    def _start(self, node: ChaosNode) -> None:
        with self._log(node.name) as log:
            node.process = subprocess.Popen(
                [*self.through(node.name), *PYTHON, *self._words_of(node.name)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )

    def _words_of(self, name: str) -> list[str]:
        if name != HEAD and not self.cuts:
            return ["tests.on_ray.chaos_node", self.address, name, str(SLOTS)]
        words = ["ray.scripts.scripts", "start"]
        if name == HEAD:
            words += ["--head", f"--port={self.network.port}", "--include-dashboard=false"]
            words += [f"--temp-dir={self.folder}/ray"]
        else:
            words += [f"--address={self.address}"]
        if not self.cuts:  # All nodes take their ports from this machine.
            words += ["--min-worker-port=0", "--max-worker-port=0"]
        words += [f"--node-ip-address={self.network.addresses[name]}"]
        words += [f"--node-name={name}", f"--num-cpus={SLOTS}", "--disable-usage-stats"]
        words += [f"--labels=treadle.io/slots={SLOTS}"]  # GPUs of the machine stay out of it.
        return [*words, f"--object-store-memory={80 << 20}", "--block"]

    def _is_up(self, node: str) -> bool:
        return "This command will now block" in (self.folder / f"{node}.log").read_text()

    def _log(self, name: str) -> IO[bytes]:
        return (self.folder / f"{name}.log").open("ab")

    def _keep_up(self) -> None:
        while not self._ending.wait(LOOK_S):
            for node in self._nodes.values():
                ended = node.process is not None and node.process.poll() is not None
                if ended and not node.is_cut and time.monotonic() >= node.back_at:
                    self._start(node)

    # -- faults ---------------------------------------------------------------------------------

    def kill_raylet(self, node: str, back_after_s: float) -> bool:
        """False if it was dead already. Its node is started again so long after."""
        raylet = self._raylet(node)
        if raylet is None:
            return False
        self._nodes[node].back_at = time.monotonic() + back_after_s
        return processes.send(raylet, signal.SIGKILL)

    def hit_agent(self, node: str, number: signal.Signals) -> bool:
        """The process of its agent; its keeper is left alone."""
        agents = [each for each in self._agents() if f"/nodes/{node} " in command_of(each)]
        return bool([each for each in agents if processes.send(each, number)])

    def cut(self, node: str) -> None:
        self._nodes[node].is_cut = True
        self.network.cut(node)

    def heal(self, node: str) -> None:
        self.network.heal(node)
        self._nodes[node].is_cut = False

    def _raylet(self, node: str) -> ProcessId | None:
        process = self._nodes[node].process
        found = [] if process is None else children(process.pid)
        return next((each for each in found if _name_of(each.pid) == "raylet"), None)

    # -- what is there --------------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """What Ray says."""
        with self._lock:
            for _ in range(EYES):
                if self._eye is None:
                    self._eye = self._open_eye()
                assert self._eye.stdin is not None
                assert self._eye.stdout is not None
                line = ""
                with suppress(OSError):
                    self._eye.stdin.write("look\n")
                    self._eye.stdin.flush()
                    line = self._eye.stdout.readline()
                if line:
                    found: dict[str, Any] = json.loads(line)
                    return found
                self._close_eye()  # It ends with the raylet that it is attached to.
        raise AssertionError((self.folder / "eye.log").read_text()[-2000:])

    def _close_eye(self) -> None:
        eye, self._eye = self._eye, None
        if eye is not None:
            eye.kill()
            eye.wait()
            for pipe in (eye.stdin, eye.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()

    def is_whole(self) -> bool:
        return sorted(self.seen()["nodes"].values()) == sorted(NODES)

    def wrong(self, *, left: bool = False) -> list[str]:
        """What Ray has that it should not have, or lacks. left: Treadle has left the cluster."""
        seen = self.seen()
        alive = [] if left else sorted(seen["nodes"])
        found = []
        if sorted(seen["nodes"].values()) != sorted(NODES):
            found.append(f"the nodes are {seen['nodes']}")
        if sorted(seen["groups"]) != alive or set(seen["groups"].values()) - {"CREATED"}:
            found.append(f"the placement groups are {seen['groups']} and the nodes {alive}")
        found += [
            f"the {kind} are {seen[kind]} and the nodes {alive}"
            for kind in ("agents", "posts")
            if sorted(seen[kind]) != alive
        ]
        return found

    def strays(self) -> list[str]:
        """Processes of this cluster that belong to no part of it."""
        roots = [node.process.pid for node in self._nodes.values() if node.process is not None]
        roots += [] if self._eye is None else [self._eye.pid]
        return [
            f"a process is left: {processes.command_of(each.pid)} ({each.pid})"
            for each in processes.tagged(MARK, self.mark)
            if not processes.descends_from(each.pid, [*roots, *(e.pid for e in self._keepers())])
        ]

    def _keepers(self) -> list[ProcessId]:
        """Of agents: they have no parent, and stay until Treadle is taken off the cluster."""
        return self._with("treadle.engines.agent.agent_keeper")

    def _agents(self) -> list[ProcessId]:
        return self._with("treadle.engines.clusters.ray.agent_process")

    def _with(self, module: str) -> list[ProcessId]:
        found = processes.tagged(MARK, self.mark)
        return [each for each in found if f"-m {module} " in command_of(each)]

    # -- the end --------------------------------------------------------------------------------

    def leave(self) -> list[str]:
        """Take Treadle off the cluster; what is wrong then."""
        done = subprocess.run(
            [*self.through(HEAD), *PYTHON, "treadle.engines.clusters.ray", "leave", self.address],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if done.stdout != f"agents and reservations of {len(NODES)} nodes were removed\n":
            return [f"leave: {done.stdout} {done.stderr}"]
        with suppress(AssertionError):
            self._until(lambda: not self.wrong(left=True) and not self._keepers(), "")
        kept = [f"it is left: {command_of(each)}" for each in self._keepers()]
        return self.wrong(left=True) + kept

    def end(self, *, keep: bool = False) -> list[str]:
        """End all processes and the network; what is left. keep: leave the logs for a look."""
        with self._end_lock:
            return [] if self._ending.is_set() else self._end(keep)

    def _end(self, keep: bool) -> list[str]:
        self._ending.set()
        if self._keeper.is_alive():
            self._keeper.join()
        self._close_eye()
        # Ray itself would take half a minute to leave.
        while processes.kill_tagged(MARK, self.mark):
            time.sleep(0.02)
        for node in self._nodes.values():
            if node.process is not None:
                node.process.wait(PATIENCE_S)
        left = self.network.end()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        return [f"left at the end: {each}" for each in left]

    def _until(self, true: Any, otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            logs = "\n".join(
                f"{path.name}: {path.read_text(errors='replace')[-400:]}"
                for path in self.folder.glob("*.log")
            )
            assert time.monotonic() < deadline, f"{otherwise}\n{logs}"
            time.sleep(LOOK_S)


def children(pid: int) -> list[ProcessId]:
    """Of all its threads: a child belongs to the thread that made it."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for word in path.read_text().split():
                start = processes.start_of(int(word))
                if start is not None:
                    found.append(ProcessId(int(word), start))
    return found


def command_of(process: ProcessId) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().replace("\0", " ")
    return ""


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
