"""Machines and launches as an engine sees them."""

import pytest

from treadle.core.cluster import Device, Node
from treadle.core.events import DeviceClosed
from treadle.core.launch import AttemptId, Launch
from treadle.core.machine import DeviceView, NodeView

DEVICE = Device("n0", 3)
FOREIGN = DeviceClosed(DEVICE, "used by another program", "foreign")


@pytest.mark.parametrize(
    ("jobs", "closed", "state", "because"),
    [
        ((), None, "free", ""),
        (("a",), None, "held", ""),
        ((), FOREIGN, "foreign", "used by another program"),
        (("a",), FOREIGN, "held", "used by another program"),
    ],
)
def test_a_device_is_held_or_closed_or_free(
    jobs: tuple[str, ...], closed: DeviceClosed | None, state: str, because: str
) -> None:
    view = DeviceView.of(DEVICE, jobs, closed, model="H100")
    assert (view.name, view.number, view.model) == ("n0:3", 3, "H100")
    assert (view.state, view.because, view.jobs) == (state, because, jobs)


def test_a_node_shows_all_its_devices_in_order() -> None:
    node = Node("n0", 2, cores=8, memory_gib=64.0, device_type="h100")
    view = NodeView.of(node, lambda device: DeviceView.of(device, (), None, model="x"))
    assert [device.name for device in view.devices] == ["n0:0", "n0:1"]
    assert (view.name, view.device_type, view.cores, view.memory_gib) == ("n0", "h100", 8, 64.0)


def test_a_launch_that_says_no_more_gets_the_documented_limits() -> None:
    launch = Launch(job="a", attempt=2, command=("x",), workdir="/", ranks=1)
    assert launch.id == AttemptId("a", 2)
    assert (launch.stop_signal, launch.grace_s, launch.time_limit_s) == ("SIGTERM", 30.0, None)
    assert launch.log_bytes_max == 268_435_456, "256 MiB"
    assert (launch.launcher, launch.resumed, launch.uid, launch.gid) == (False, False, None, None)
    assert (launch.iterations_done, launch.iterations_per_s) == (0.0, 1.0)
    assert (dict(launch.env), dict(launch.secrets)) == ({}, {})
