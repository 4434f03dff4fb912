"""An elastic training on a Ray cluster of four nodes, one of which dies: how long until it trains.

    .venv/bin/python benchmarks/ray_elastic.py

Starts a real cluster on loopback and `treadle up --engine ray`. A torch job (gloo, treadle.train)
grows from one node to three, shrinks, and loses a node: its raylet, agent, supervisors and ranks
are killed. It prints the phases from that moment to the first step of the next attempt, which steps
were done again, and whether the losses are those of the undisturbed run.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.control.daemons import daemon
from tests.on_ray.cluster import ray_cluster
from tests.on_ray.elastic_story import OPTIONS, alone, whole


def main() -> None:
    with tempfile.TemporaryDirectory() as name, ray_cluster() as cluster:
        folder = Path(name) / "job"
        folder.mkdir()
        os.environ |= cluster.environment
        with daemon("--engine", "ray", "--address", cluster.address, *OPTIONS) as live:
            outcome = whole(cluster, live, folder)
        print(*outcome.lines(), sep="\n")
        redone = {attempt: len(steps) for attempt, steps in outcome.lineage.redone.items()}
        print(f"{outcome.last} steps, each once in the end; done again, by attempt: {redone}")
        outcome.check(alone(outcome.last, Path(name) / "alone"))
        print("losses as in the undisturbed run")


if __name__ == "__main__":
    main()
