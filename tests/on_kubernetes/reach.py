"""The cluster of tests as others see it: its API server by its administrator, and its processes."""

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TESTS = Path(__file__).parents[2]
SLOTS = {"n0": 3, "n1": 2, "n2": 2}  # CPU slots of each node
BRIDGE, SUBNET, HERE = "treadle-test0", "10.87.0.0/16", "10.87.0.1"
API_PORT, KUBELET_PORT = 16443, 16500
ADMIN = "a-token-of-the-tests"


class Reach:
    """Of a cluster whose files are in that folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"  # of the administrator
        self.controller = folder / "controller"  # of the service account in deploy/

    def create(self, path: str, document: object) -> bytes:
        return self.get(path, json.dumps(document).encode())

    def get(self, path: str, body: bytes | None = None, verb: str | None = None) -> bytes:
        """What the API server answers to its administrator."""
        url = f"https://{HERE}:{API_PORT}{path}"
        request = urllib.request.Request(url, data=body, method=verb)
        request.add_header("Authorization", f"Bearer {ADMIN}")
        request.add_header("Content-Type", "application/json")
        trust = ssl.create_default_context(cafile=str(self.folder / "api.crt"))
        with urllib.request.urlopen(request, timeout=5, context=trust) as answer:
            found: bytes = answer.read()
            return found

    def kubectl(self, *words: str, given: object = None) -> str:
        """As its administrator."""
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *words]
        sent = json.dumps(given) if given else ""
        done = subprocess.run(command, input=sent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def is_ready(self) -> bool:
        with suppress(OSError, urllib.error.URLError):
            return bool(self.get("/readyz") == b"ok")
        return False

    def ready_nodes(self) -> set[str]:
        nodes = json.loads(self.get("/api/v1/nodes"))["items"]
        ready = {"type": "Ready", "status": "True"}
        return {
            each["metadata"]["name"]
            for each in nodes
            if any(ready.items() <= one.items() for one in each["status"].get("conditions", ()))
        }


class Cluster(Reach):
    """One that another process has."""

    def __init__(self, folder: Path, host: "subprocess.Popen[str]") -> None:
        super().__init__(folder)
        self._host = host
        self.lost: list[str] = []

    def lose(self, node: str) -> None:
        """Its power is cut."""
        self.lost.append(node)
        self.say("lose", node)

    def give_back(self, node: str) -> None:
        self.say("give_back", node)
        self.lost.remove(node)

    def say(self, verb: str, name: str) -> None:
        """`kill` and `start` take the names of processes: api, etcd, kubelet-n0, containerd-n0."""
        assert self._host.stdin is not None
        assert self._host.stdout is not None
        self._host.stdin.write(f"{verb} {name}\n")
        self._host.stdin.flush()
        assert self._host.stdout.readline() == "done\n"


@contextmanager
def running() -> Iterator[Cluster]:
    """A cluster in a process of its own, which ends it however this one ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.on_kubernetes.cluster"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        start_new_session=True,
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        path = host.stdout.readline().strip()
        assert path, "the cluster did not start"
        try:
            yield Cluster(Path(path).parent, host)
        finally:
            host.stdin.close()
            host.wait(60)
