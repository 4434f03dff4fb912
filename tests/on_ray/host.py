"""A Ray cluster of four nodes on loopback, in a process of its own; it ends when its input does.

    python -m tests.on_ray.host FOLDER TYPES

TYPES is a JSON object: what the devices of nodes are called.

Head and nodes are started by this process and are its children, so that killed ones are reaped: a
raylet that is a zombie counts as alive for its workers. Commands come as lines and are answered by
lines: `lose n1` kills the raylet of a node, `return n1` starts one of that name. Drivers connect to
FOLDER/driver; each connection is served as the product's own driver serves its only one.
"""

import asyncio
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from tests.on_ray.cluster import BEGIN_WITHIN_S, NODES
from treadle.engines.clusters.ray import cluster, driver
from treadle.engines.clusters.ray.driver import Driver

# Ray writes to the standard output too: that goes to the log.
ANSWERS = os.dup(1)
os.dup2(2, 1)


class Nodes:
    """The processes of the cluster."""

    def __init__(self, types: dict[str, str]) -> None:
        self._types = types
        # This process ends its nodes itself.
        self._cluster = Cluster(shutdown_at_exit=False)
        self._by_name: dict[str, Any] = {}
        for name in NODES:  # The driver is attached to the first, so that one is never lost.
            self.add(name)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, name: str) -> None:
        self._by_name[name] = self._cluster.add_node(
            node_ip_address="127.0.0.1",
            node_name=name,
            num_cpus=NODES[name],
            labels={"rack": "r1" if name in ("n0", "n1") else "r2", **self._typed(name)},
            include_dashboard=False,
            include_log_monitor=False,
            object_store_memory=80 << 20,
        )

    def _typed(self, name: str) -> dict[str, str]:
        return {cluster.TYPED: self._types[name]} if name in self._types else {}

    def lose(self, name: str) -> None:
        self._cluster.remove_node(self._by_name.pop(name), allow_graceful=False)

    def end(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await Driver(reader, writer, cluster, cluster.GcsValues()).serve()


def _say(line: str) -> None:
    os.write(ANSWERS, f"{line}\n".encode())


def _run(folder: Path, types: dict[str, str]) -> None:
    """Drivers are served by another thread: only the main one may start nodes of Ray."""
    driver.ATTEND_WITHIN_S = BEGIN_WITHIN_S  # On a busy machine agents take long.
    nodes = Nodes(types)
    try:
        cluster.connect(nodes.address)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(asyncio.start_unix_server(_serve, folder / "driver"))
        threading.Thread(target=loop.run_forever, daemon=True).start()
        _say(nodes.address)
        for line in sys.stdin:
            verb, name = line.split()
            {"lose": nodes.lose, "return": nodes.add}[verb](name)
            _say("done")
    finally:
        nodes.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _run(Path(sys.argv[1]), json.loads(sys.argv[2]))
    os._exit(0)
