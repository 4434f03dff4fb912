"""A real training on a Ray cluster: its members change over nodes, and one of these dies."""

from pathlib import Path

import pytest

from tests.control.daemons import daemon
from tests.on_ray.cluster import RayCluster
from tests.on_ray.elastic_story import OPTIONS, alone, whole
from tests.shared import thorough

pytest.importorskip("torch")


@thorough
def test_a_training_grows_over_nodes_shrinks_and_outlives_one(
    ray_nodes: RayCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ends with the losses of the undisturbed run; no step counts twice."""
    for name, value in ray_nodes.environment.items():
        monkeypatch.setenv(name, value)
    ray_nodes.give_back_all()
    folder = tmp_path / "job"
    folder.mkdir()
    with daemon("--engine", "ray", "--address", ray_nodes.address, *OPTIONS) as live:
        outcome = whole(ray_nodes, live, folder)
    outcome.check(alone(outcome.last, tmp_path / "alone"))
