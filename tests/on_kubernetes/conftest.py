"""One cluster for all tests of this folder; they are skipped where none can be started."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.on_kubernetes.agents import deploy
from tests.on_kubernetes.build import missing
from tests.on_kubernetes.reach import Cluster, running


@pytest.fixture(scope="package")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder at the same path on all nodes."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="package")
def kubernetes(shared: Path) -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(f"no Kubernetes: {why}")
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("one cluster at a time, without -n: pytest tests/on_kubernetes")
    with running() as cluster:
        deploy(cluster, shared)
        yield cluster
