"""A real Kubernetes for tests: etcd, an API server, and nodes with a containerd and a kubelet each.

    python -m tests.on_kubernetes.cluster

starts one, prints the path of its kubeconfig, and ends it when its input ends. Lines are commands:
`lose n1`, `give_back n1`, `kill api`, `start api`; each is answered by `done`. It runs as root,
without systemd, and leaves nothing: no process, mount, bridge or group.
What it lacks of a whole Kubernetes: controller manager, scheduler, kube-proxy, DNS. One at a time
runs on a machine. Programs come from build.py, and the machine's packages.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import yaml

from tests.on_kubernetes.build import CNI, cache, missing
from tests.on_kubernetes.image import PAUSE, archive
from tests.on_kubernetes.reach import (
    ADMIN,
    API_PORT,
    BRIDGE,
    HERE,
    KUBELET_PORT,
    SLOTS,
    SUBNET,
    Reach,
)
from treadle.engines.clusters.kubernetes.certificate import self_signed

READY_WITHIN_S = 90.0
GROUPS = Path("/sys/fs/cgroup")


class Host(Reach):
    """Processes by name, each of which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd_port = _free_port()
        self._environment: dict[str, dict[str, str]] = {}

    # -- the life of it -------------------------------------------------------------------------

    def begin(self) -> None:
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "address", "add", f"{HERE}/16", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        self._write_keys()
        archive(self.folder / "images.tar")
        self._prepare_control_plane()
        self.start("etcd")
        self.start("api")
        self._await_api()
        for number, name in enumerate(SLOTS):
            self._prepare_node(name, number)
            self.start(f"containerd-{name}")
        for name in SLOTS:
            self._import(name)
            self.start(f"kubelet-{name}")
        self._await_nodes()

    def end(self) -> None:
        for name in SLOTS:
            self.kill(f"kubelet-{name}")
        for name in SLOTS:
            if f"containerd-{name}" in self._running:
                self._end_containers(name)
        for name in list(self._running):
            self.kill(name)
        self._end_shims()
        self._unmount()
        for group in GROUPS.glob("*/k8s.io"):
            for each in (*group.glob("*"), group):
                with suppress(OSError):  # Its files cannot be removed; only folders are.
                    each.rmdir()
        subprocess.run(["ip", "link", "del", BRIDGE], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self._environment.get(name, {})},
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        if (process := self._running.pop(name, None)) is not None:
            process.send_signal(number)
            process.wait()

    def lose(self, name: str) -> None:
        """The power of a node is cut."""
        self.kill(f"kubelet-{name}")
        self._end_containers(name)

    def give_back(self, name: str) -> None:
        self.start(f"kubelet-{name}")

    # -- control plane --------------------------------------------------------------------------

    def _write_keys(self) -> None:
        server = self_signed("kubernetes", [HERE, "127.0.0.1"])
        (self.folder / "api.crt").write_bytes(server.pem)
        (self.folder / "api.key").write_bytes(server.key)
        client = self_signed("apiserver")
        (self.folder / "client.crt").write_bytes(client.pem)
        (self.folder / "client.key").write_bytes(client.key)
        tokens = [f'{ADMIN},admin,1,"system:masters"']
        for name in SLOTS:
            tokens.append(f'token-of-{name},system:node:{name},{name},"system:nodes"')
            self._write_kubeconfig(self.folder / f"{name}.kubeconfig", f"token-of-{name}")
        (self.folder / "tokens.csv").write_text("\n".join(tokens) + "\n")
        self._write_kubeconfig(self.kubeconfig, ADMIN)

    def _write_kubeconfig(self, path: Path, token: str) -> None:
        authority = str(self.folder / "api.crt")
        server = {"server": f"https://{HERE}:{API_PORT}", "certificate-authority": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(document))

    def _prepare_control_plane(self) -> None:
        etcd, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{_free_port()}"
        self._environment["etcd"] = {"ETCD_UNSUPPORTED_ARCH": "arm64"}
        self._commands["etcd"] = [
            *("etcd", "--data-dir", str(self.folder / "etcd"), "--log-level", "error"),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        ]
        given = {
            "etcd-servers": etcd,
            "bind-address": HERE,
            "advertise-address": HERE,
            "secure-port": API_PORT,
            "cert-dir": self.folder / "api-certs",
            "tls-cert-file": self.folder / "api.crt",
            "tls-private-key-file": self.folder / "api.key",
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "service-account-key-file": self.folder / "api.crt",
            "service-account-signing-key-file": self.folder / "api.key",
            "service-account-issuer": "https://kubernetes",
            "service-cluster-ip-range": "10.88.0.0/24",
            "kubelet-client-certificate": self.folder / "client.crt",
            "kubelet-client-key": self.folder / "client.key",
            "kubelet-preferred-address-types": "InternalIP",
            "endpoint-reconciler-type": "none",
            "event-ttl": "10m",
        }
        program = str(cache() / "kube-apiserver")
        self._commands["api"] = [program, *(f"--{key}={value}" for key, value in given.items())]

    def _await_api(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while not self.is_ready():
            assert time.monotonic() < until, self.log("api")
            time.sleep(0.1)

    # -- nodes ----------------------------------------------------------------------------------

    def _prepare_node(self, name: str, number: int) -> None:
        here = self.folder / name
        here.mkdir()
        (here / "cni").mkdir()
        network = {
            "cniVersion": "0.4.0",
            "name": "treadle-test",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": BRIDGE,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(self.folder / "addresses"),
                        "ranges": [[{"subnet": SUBNET, "gateway": HERE}]],
                    },
                }
            ],
        }
        (here / "cni" / "10.conflist").write_text(json.dumps(network))
        (here / "containerd.toml").write_text(_CONTAINERD.format(here=here, cni=CNI, pause=PAUSE))
        self._commands[f"containerd-{name}"] = ["containerd", "-c", str(here / "containerd.toml")]
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": HERE,
            "port": KUBELET_PORT + number,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(self.folder / "client.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "5s",
        }
        (here / "kubelet.yaml").write_text(yaml.safe_dump(settings))
        socket_ = f"unix://{here}/containerd.sock"
        given = {
            "config": here / "kubelet.yaml",
            "kubeconfig": self.folder / f"{name}.kubeconfig",
            "hostname-override": name,
            "node-ip": HERE,
            "root-dir": here / "kubelet",
            "cert-dir": here / "pki",
            "container-runtime": "remote",
            "container-runtime-endpoint": socket_,
            "image-service-endpoint": socket_,
            "pod-infra-container-image": PAUSE,
            "node-labels": f"treadle.dev/slots={SLOTS[name]}",
            "housekeeping-interval": "30s",
        }
        program = str(cache() / "kubelet")
        words = [program, *(f"--{key}={value}" for key, value in given.items())]
        self._commands[f"kubelet-{name}"] = words

    def _import(self, name: str) -> None:
        until = time.monotonic() + READY_WITHIN_S
        words = [*self._ctr(name), "images", "import", str(self.folder / "images.tar")]
        while subprocess.run(words, capture_output=True, check=False).returncode:
            assert time.monotonic() < until, self.log(f"containerd-{name}")
            time.sleep(0.1)

    def _await_nodes(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while self.ready_nodes() != SLOTS.keys():
            assert time.monotonic() < until, self.log(f"kubelet-{next(iter(SLOTS))}")
            time.sleep(0.2)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()[-3000:]

    # -- its end --------------------------------------------------------------------------------

    def _ctr(self, name: str) -> list[str]:
        return ["ctr", "-a", str(self.folder / name / "containerd.sock"), "-n", "k8s.io"]

    def _end_containers(self, name: str) -> None:
        words = self._ctr(name)
        with suppress(subprocess.SubprocessError):
            listed = subprocess.run(
                [*words, "tasks", "ls", "-q"], capture_output=True, check=True, timeout=20
            )
            for task in listed.stdout.decode().split():
                subprocess.run(
                    [*words, "tasks", "delete", "--force", task],
                    capture_output=True,
                    check=False,
                    timeout=20,
                )

    def _end_shims(self) -> None:
        """Those of this cluster, and what they started: its folder is in their command."""
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes() if process.name.isdigit() else b""
                if b"containerd-shim" in words and str(self.folder).encode() in words:
                    os.kill(int(process.name), signal.SIGKILL)

    def _unmount(self) -> None:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        mounted = [line.split()[4] for line in lines]
        for path in reversed([each for each in mounted if each.startswith(f"{self.folder}/")]):
            subprocess.run(["umount", "-l", path], check=False, capture_output=True)


_CONTAINERD = """\
version = 2
root = "{here}/root"
state = "{here}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.internal.v1.opt"]
[grpc]
address = "{here}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{cni}"
conf_dir = "{here}/cni"
"""


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _host() -> None:
    if why := missing():
        sys.exit(why)
    with (cache() / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = Host(Path(tempfile.mkdtemp(prefix="tk8s-")))
        try:
            cluster.begin()
            _say(str(cluster.kubeconfig))
            for line in sys.stdin:
                verb, name = line.split()
                getattr(cluster, verb)(name)
                _say("done")
        finally:
            cluster.end()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _host()
