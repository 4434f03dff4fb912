"""One Ray cluster for all tests of a worker that want it."""

from collections.abc import Iterator

import pytest
from tests.engines.ray_cluster import RayCluster, ray_cluster


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[RayCluster]:
    with ray_cluster() as found:
        yield found
