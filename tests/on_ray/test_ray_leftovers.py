"""What a driver that died leaves in the cluster is removed by the next one."""

import os
import subprocess
import sys

from tests.on_ray.cluster import RayCluster
from tests.shared import thorough

# A driver that died after it had reserved a node and before that had an agent; then the node died.
STORY = """
import sys
from ray.util.placement_group import placement_group_table
from treadle.engines.clusters.ray import cluster

cluster.connect(sys.argv[1])
dead = cluster.RayNode(id="0" * 56, name="x", address="", rack="", gpus=0, cpus=1)
cluster.reserve(dead, None)

def reserved():
    rows = [row for row in placement_group_table().values() if row["state"] != "REMOVED"]
    return {row["name"] for row in rows}

before = reserved()
assert f"treadle-{dead.id}" in before
cluster.forget_the_dead()
print("left", sorted(reserved() ^ before) == [f"treadle-{dead.id}"])
"""


@thorough
def test_the_reservation_of_a_node_that_died_before_it_had_an_agent(ray_nodes: RayCluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STORY, ray_nodes.address],
        env={**os.environ, **ray_nodes.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "left True\n", done.stderr
