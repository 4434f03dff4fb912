"""A node of a Ray cluster on loopback, which `ray start --address` refuses to be.

    python -m tests.on_ray.chaos_node ADDRESS NAME SLOTS

It ends when one of Ray's processes here does, as `ray start --block` does.
"""

import sys
import time

from ray._private.node import Node
from ray._private.parameter import RayParams

LOOK_S = 0.5


def main() -> None:
    address, name, slots = sys.argv[1:]
    params = RayParams(
        gcs_address=address,
        node_ip_address=address.rpartition(":")[0],
        node_name=name,
        num_cpus=int(slots),
        labels={"treadle.io/slots": slots},
        object_store_memory=80 << 20,
        include_log_monitor=False,
        min_worker_port=0,  # All nodes take their ports from this machine.
        max_worker_port=0,
    )
    node = Node(params, head=False, shutdown_at_exit=False, spawn_reaper=False)
    sys.stdout.write("This command will now block\n")
    sys.stdout.flush()
    while not node.dead_processes():
        time.sleep(LOOK_S)
    node.kill_all_processes(check_alive=False, allow_graceful=False)


if __name__ == "__main__":
    main()
