"""What keeps other Ray work off the GPUs that Treadle manages, and what it costs.

    .venv/bin/python benchmarks/ray_reservation.py

Two nodes with 8 GPUs each on loopback; the GPUs are numbers to Ray and need not exist. Other work
that wants all of them is queued. Three ways to reserve are tried:

    custom resource    Treadle's agent takes a resource of its own, `treadle_gpu`
    actor's resources  the agent, an actor, asks for the GPUs of its node
    placement group    a detached group holds them, and the agent asks for nothing

Printed for each: seconds until both nodes are reserved, how many GPUs other work got hold of within
`WATCH_S`, how many after the process of an agent was killed (Ray starts it again), how many after
the driver that made the reservation has left, and how many after the agents were ended, as when
agents of another version of Treadle take their places.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NODES, GPUS, WATCH_S = 2, 8, 4.0
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
}
NAMESPACE = "reservation"


def main() -> None:
    """Each way in a process and a cluster of its own."""
    for way in WAYS:
        with tempfile.TemporaryDirectory(prefix="rr-", ignore_cleanup_errors=True) as folder:
            (Path(folder) / "ray").mkdir()
            subprocess.run(
                [sys.executable, __file__, "measure", way],
                env={**os.environ, **ENVIRONMENT, "RAY_TMPDIR": folder},
                check=True,
            )


def measure(way: str) -> None:
    import ray  # noqa: PLC0415  # The environment must be set before.
    from ray.cluster_utils import Cluster  # noqa: PLC0415
    from ray.util.placement_group import placement_group, placement_group_table  # noqa: PLC0415

    cluster = Cluster(shutdown_at_exit=False)
    own = {"node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster.add_node(num_cpus=0, object_store_memory=80 << 20, **own)
    for _ in range(NODES):
        cluster.add_node(
            num_cpus=32,
            num_gpus=GPUS,
            resources={"treadle_gpu": GPUS},
            object_store_memory=80 << 20,
            **own,
        )
    ray.init(
        address=cluster.address,
        _node_ip_address="127.0.0.1",
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        driver = subprocess.Popen(
            [sys.executable, __file__, "reserve", way, cluster.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert driver.stdout is not None
        assert driver.stdin is not None
        took_s, *pids = driver.stdout.readline().split()

        # Groups and not tasks: a task must wait for a process too.
        others = [placement_group([{"GPU": 1}]) for _ in range(NODES * GPUS)]

        def claimed() -> int:
            time.sleep(WATCH_S)
            tables = [placement_group_table(other) for other in others]
            return sum(table["state"] == "CREATED" for table in tables)

        at_rest = claimed()
        os.kill(int(pids[0]), signal.SIGKILL)
        after_crash = claimed()
        driver.stdin.close()
        driver.wait()
        after_driver = claimed()
        for row in ray.util.list_named_actors(all_namespaces=True):
            ray.kill(ray.get_actor(row["name"], namespace=row["namespace"]))
        print(
            f"{way:18} {float(took_s):6.2f} s   other work got {at_rest:2d} of {NODES * GPUS}, "
            f"{after_crash:2d} after a crash of an agent, {after_driver:2d} after its driver left, "
            f"{claimed():2d} after both agents were ended"
        )
    finally:
        ray.shutdown()
        cluster.shutdown()


def reserve(way: str, address: str) -> None:
    """The driver of Treadle: it reserves, and leaves when its input ends."""
    import ray  # noqa: PLC0415

    ray.init(
        address=address,
        _node_ip_address="127.0.0.1",
        namespace=NAMESPACE,
        log_to_driver=False,
        logging_level="ERROR",
    )
    nodes = [row["NodeID"] for row in ray.nodes() if row["Resources"].get("GPU")]
    begun = time.perf_counter()
    agents = WAYS[way](nodes)
    pids = ray.get([agent.pid.remote() for agent in agents])
    sys.stdout.write(f"{time.perf_counter() - begun} {' '.join(map(str, pids))}\n")
    sys.stdout.flush()
    sys.stdin.read()


def agents(nodes: list[str], **options: object) -> list[Any]:
    import ray  # noqa: PLC0415
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    @ray.remote
    class Agent:
        def pid(self) -> int:
            return os.getpid()

    return [
        Agent.options(  # type: ignore[attr-defined]
            name=f"agent-{node}",
            lifetime="detached",
            num_cpus=0,
            max_restarts=-1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            **options,
        ).remote()
        for node in nodes
    ]


def with_custom_resource(nodes: list[str]) -> list[Any]:
    return agents(nodes, resources={"treadle_gpu": GPUS})


def with_resources_of_the_actor(nodes: list[str]) -> list[Any]:
    return agents(nodes, num_gpus=GPUS)


def with_placement_groups(nodes: list[str]) -> list[Any]:
    from ray.util.placement_group import placement_group  # noqa: PLC0415

    groups = [
        placement_group(
            [{"GPU": GPUS}],
            strategy="STRICT_PACK",
            name=f"treadle-{node}",
            lifetime="detached",
            bundle_label_selector=[{"ray.io/node-id": node}],
        )
        for node in nodes
    ]
    assert all(group.wait(30) for group in groups)
    return agents(nodes)


WAYS: dict[str, Callable[[list[str]], list[Any]]] = {
    "custom resource": with_custom_resource,
    "actor's resources": with_resources_of_the_actor,
    "placement group": with_placement_groups,
}

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", way]:
            measure(way)
        case ["reserve", way, address]:
            reserve(way, address)
        case _:
            main()
