"""Network namespaces joined by a bridge: one for each node, and the link of each can be cut.

The bridge has no address and no way out: nothing but these namespaces can be reached. Where there
are no namespaces, all nodes can be on loopback, and none can be cut off.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from treadle.engines.clusters.ray.address import free_port
from treadle.engines.node import processes

PORT = 6379  # of Ray's head
SPACES, LINKS = Path("/run/netns"), Path("/sys/class/net")
NAME = re.compile(r"tc([0-9]+)x[0-9]+[a-z0-9]*", re.ASCII)
# A connection over a link that was cut is given up after some seconds, not minutes: so Ray hears
# soon after that the node is back.
RETRIES = 4


class Network(Protocol):
    addresses: dict[str, str]  # of the nodes
    port: int  # of Ray's head
    inodes: dict[int, str]  # names by the inode of their namespace; empty if they have none

    def through(self, node: str) -> tuple[str, ...]:
        """Words before a command that is to run on that node. It stays the same process."""
        ...

    def cut(self, node: str) -> None: ...

    def heal(self, node: str) -> None: ...

    def end(self) -> list[str]:
        """Remove it; what could not be removed."""
        ...


class Namespaces:
    """Made by root; `end` removes it when the processes in it are gone."""

    def __init__(self, number: int, nodes: Sequence[str]) -> None:
        """number: tells networks of this process from each other."""
        self._prefix = f"tc{os.getpid()}x{number}"  # Names of links are short.
        self.addresses = {name: f"10.213.0.{10 + place}" for place, name in enumerate(nodes)}
        self.port = PORT
        self._bridge = f"{self._prefix}b"
        try:
            self.inodes = self._made()
        except OSError:
            self.end()
            raise

    def _made(self) -> dict[int, str]:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        for name, address in self.addresses.items():
            space = link = self._name(name)
            _ip("netns", "add", space)
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", link, "master", self._bridge, "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            wish = f"echo {RETRIES} > /proc/sys/net/ipv4/tcp_retries2"
            words = [*self.through(name), "sh", "-c", wish]
            subprocess.run(words, capture_output=True, check=False)  # It only saves time.
        return {(SPACES / self._name(name)).stat().st_ino: name for name in self.addresses}

    def through(self, node: str) -> tuple[str, ...]:
        # Not `ip netns exec`, which hides the machine's control groups.
        return ("nsenter", f"--net={SPACES / self._name(node)}")

    def cut(self, node: str) -> None:
        _ip("link", "set", self._name(node), "down")

    def heal(self, node: str) -> None:
        _ip("link", "set", self._name(node), "up")

    def end(self) -> list[str]:
        return _removed(f"{self._prefix}[bn]*")  # 1 is not 10.

    def _name(self, node: str) -> str:
        return f"{self._prefix}{node}"


class Loopback:
    """All nodes have the address of this machine."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self.addresses = dict.fromkeys(nodes, "127.0.0.1")
        self.inodes: dict[int, str] = {}
        self.port = free_port()

    def through(self, node: str) -> tuple[str, ...]:
        return ()

    def cut(self, node: str) -> None:
        raise AssertionError(f"{node} cannot be cut off")

    def heal(self, node: str) -> None:
        """It was never cut off."""

    def end(self) -> list[str]:
        return []


@cache
def why_not() -> str:
    """Why no network can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "network namespaces need root, and this is another user"
    packages = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
    for word, package in packages.items():
        if shutil.which(word) is None:
            return f"the command {word} is missing; it is in the package {package}"
    try:
        Namespaces(999, ("n",)).end()
    except OSError as error:
        return f"no network namespaces can be made: {error}"
    done = subprocess.run(
        ["unshare", "--mount", "true"], capture_output=True, text=True, check=False
    )
    return f"nodes cannot have disks of their own: {done.stderr.strip()}" if done.returncode else ""


def sweep() -> list[str]:
    """Remove what a process left that was killed; what it was."""
    there = [path.name for folder in (SPACES, LINKS) for path in folder.glob("tc*")]
    owners = {match[1] for name in there if (match := NAME.fullmatch(name))}
    dead = [pid for pid in sorted(owners) if not processes.environment_of(int(pid))]
    for pid in dead:
        for space in SPACES.glob(f"tc{pid}x*"):
            for word in _ip("netns", "pids", space.name).split():
                if (start := processes.start_of(int(word))) is not None:
                    processes.send(processes.ProcessId(int(word), start), signal.SIGKILL)
        _removed(f"tc{pid}x*")
    return [f"the network and the processes of process {pid}" for pid in dead]


def _removed(pattern: str) -> list[str]:
    """What could not be removed of all that has such a name."""
    # The kernel would remove the links with their namespaces, some time later.
    for path in LINKS.glob(pattern):
        subprocess.run(["ip", "link", "del", path.name], capture_output=True, check=False)
    for path in SPACES.glob(pattern):
        subprocess.run(["ip", "netns", "del", path.name], capture_output=True, check=False)
    return [path.name for folder in (SPACES, LINKS) for path in folder.glob(pattern)]


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
