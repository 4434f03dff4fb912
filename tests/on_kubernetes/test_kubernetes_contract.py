"""The engine on Kubernetes keeps the contract of engines, on a real cluster of three nodes."""

from pathlib import Path

import pytest

from tests.on_kubernetes.bench import KubernetesBench
from tests.on_kubernetes.reach import Cluster
from treadle.testing.engine_bench import EngineBench
from treadle.testing.engine_contract import EngineContract


class TestKubernetesEngine(EngineContract):
    __test__ = True

    @pytest.fixture(autouse=True)
    def _world(self, shared: Path, kubernetes: Cluster) -> None:
        self.shared, self.cluster = shared, kubernetes

    def bench(self) -> EngineBench:
        return KubernetesBench(self.shared, self.cluster)
