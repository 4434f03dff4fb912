"""The path through NVML on a machine that has GPUs; skipped, with NVML's own words, elsewhere."""

import os

import pytest

from treadle.core.errors import EngineError
from treadle.engines.node.devices import node_of
from treadle.engines.node.gpus import NvmlGpus


@pytest.fixture(scope="module")
def gpus() -> NvmlGpus:
    try:
        return NvmlGpus()
    except EngineError as error:
        pytest.skip(str(error))


def test_gpus_are_found_by_uuid(gpus: NvmlGpus):
    assert gpus.uuids
    assert all(uuid.startswith("GPU-") for uuid in gpus.uuids)
    assert len(set(gpus.uuids)) == len(gpus.uuids)
    assert gpus.driver
    assert node_of(gpus, "here").device_count == len(gpus.uuids)


def test_what_is_seen_of_a_gpu_makes_sense(gpus: NvmlGpus):
    for number, sight in enumerate(gpus.look()):
        assert (sight.number, sight.uuid, sight.error) == (number, gpus.uuids[number], "")
        assert sight.model
        assert sight.memory_gib is not None
        assert sight.memory_used_gib is not None
        assert 0 <= sight.memory_used_gib <= sight.memory_gib
        assert sight.busy is None or 0 <= sight.busy <= 1
        assert os.getpid() not in [process.pid for process in sight.processes]
