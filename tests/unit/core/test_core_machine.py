"""Machines and launches as an engine sees them."""

import pytest

from treadle.core.cluster import Device
from treadle.core.events import DeviceClosed
from treadle.core.machine import DeviceView

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
