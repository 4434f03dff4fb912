"""What Ray itself says about the cluster: a driver of its own, asked by lines.

    python -m tests.on_ray.chaos_eye ADDRESS

Each line of input is answered by one of JSON: the nodes that are alive, and what Treadle keeps in
the cluster, each by the id of the node that it is for.
"""

import json
import os
import sys

import ray
from ray.util import list_named_actors
from ray.util.placement_group import placement_group_table

from treadle.engines.clusters.ray import cluster
from treadle.engines.clusters.ray.agent_actor import NAMESPACE, POSTS

# Ray writes to the standard output too: that goes to the log.
ANSWERS = os.dup(1)
os.dup2(2, 1)


def look() -> dict[str, object]:
    alive = {row["NodeID"]: row["NodeName"] for row in ray.nodes() if row["Alive"]}
    groups = [row for row in placement_group_table().values() if row["state"] != "REMOVED"]
    actors = list_named_actors(all_namespaces=True)
    return {
        "nodes": alive,
        "groups": {row["name"].removeprefix("treadle-"): row["state"] for row in groups},
        "agents": [
            row["name"].removeprefix("agent-") for row in actors if row["namespace"] == NAMESPACE
        ],
        "posts": [key.removeprefix(POSTS) for key in cluster.GcsValues().keys(POSTS)],
    }


def main() -> None:
    cluster.connect(sys.argv[1])
    for _ in sys.stdin:
        os.write(ANSWERS, json.dumps(look()).encode() + b"\n")


if __name__ == "__main__":
    main()
    os._exit(0)
