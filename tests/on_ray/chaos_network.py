"""Network namespaces joined by a bridge: one for each node, and the link of each can be cut.

The bridge has no address and no way out: nothing but these namespaces can be reached.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class Network:
    """Made by root; `end` removes it when the processes in it are gone."""

    def __init__(self, number: int, nodes: Sequence[str]) -> None:
        """number: tells networks of this process from each other."""
        self._prefix = f"tc{os.getpid() % 100_000}x{number}"  # Names of links are short.
        self.addresses = {name: f"10.213.0.{10 + place}" for place, name in enumerate(nodes)}
        self._bridge = f"{self._prefix}b"
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        for name, address in self.addresses.items():
            space, link = self._space(name), self._link(name)
            _ip("netns", "add", space)
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", link, "master", self._bridge, "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
        self.inodes = {self._path(name).stat().st_ino: name for name in nodes}

    def through(self, node: str) -> tuple[str, ...]:
        """Words before a command that is to run on that node. It stays the same process."""
        # Not `ip netns exec`, which hides the machine's control groups.
        return ("nsenter", f"--net={self._path(node)}")

    def cut(self, node: str) -> None:
        _ip("link", "set", self._link(node), "down")

    def heal(self, node: str) -> None:
        _ip("link", "set", self._link(node), "up")

    def end(self) -> list[str]:
        """Remove it; what could not be removed."""
        for name in self.addresses:
            # The kernel would remove it with the namespace, some time later.
            subprocess.run(["ip", "link", "del", self._link(name)], check=False)
            subprocess.run(["ip", "netns", "del", self._space(name)], check=False)
        subprocess.run(["ip", "link", "del", self._bridge], check=False)
        left = [path.name for path in Path("/run/netns").glob(f"{self._prefix}*")]
        left += [path.name for path in Path("/sys/class/net").glob(f"{self._prefix}*")]
        return left

    def _space(self, node: str) -> str:
        return f"{self._prefix}{node}"

    def _link(self, node: str) -> str:
        return f"{self._prefix}{node}"

    def _path(self, node: str) -> Path:
        return Path("/run/netns") / self._space(node)


def why_not() -> str:
    """Why no network can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [word for word in ("ip", "nsenter", "unshare") if shutil.which(word) is None]
    return f"there is no {missing[0]}" if missing else ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
