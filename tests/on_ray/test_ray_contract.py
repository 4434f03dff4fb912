"""The engine on Ray keeps the contract of engines, on a real cluster of four nodes."""

from pathlib import Path

import pytest

from tests.on_ray.bench import RayBench
from tests.on_ray.cluster import RayCluster
from treadle.testing.engine_bench import EngineBench
from treadle.testing.engine_contract import EngineContract


class TestRayEngine(EngineContract):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _world(self, tmp_path: Path, ray_nodes: RayCluster) -> None:
        self.root, self.cluster = tmp_path, ray_nodes

    def bench(self) -> EngineBench:
        return RayBench(self.root, self.cluster)
