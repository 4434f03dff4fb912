"""One Ray cluster for all tests of this folder; it is ended before a test outside of it begins."""

from collections.abc import Iterator

import pytest

from tests.on_ray.cluster import RayCluster, ray_cluster


@pytest.fixture(scope="package")
def ray_nodes() -> Iterator[RayCluster]:
    with ray_cluster() as found:
        yield found
