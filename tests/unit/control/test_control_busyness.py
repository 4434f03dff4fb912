"""How busy the devices of attempts were."""

from treadle.control.learning.device_use import Busyness
from treadle.core.machine import DeviceView, NodeView
from treadle.store.rows import AttemptRow


def node(*busy: float | None) -> NodeView:
    devices = tuple(
        DeviceView(name=f"here:{number}", number=number, busy=share)
        for number, share in enumerate(busy)
    )
    return NodeView(name="here", device_type="gpu", cores=1, memory_gib=1.0, devices=devices)


def attempt(job: str, *devices: str, started_at: float | None = 1.0) -> AttemptRow:
    return AttemptRow(job, 1, 0, "me", "", devices, started_at, None, None, failed=False, body=b"")


def test_the_mean_over_looks_and_devices_is_kept_until_it_is_taken() -> None:
    busyness = Busyness()
    attempts = {("a", 1): attempt("a", "here:0", "here:1")}
    busyness.see(node(1.0, 0.5), attempts)
    busyness.see(node(0.5, 0.0), attempts)
    assert busyness.taken(("a", 1)) == 0.5
    assert busyness.taken(("a", 1)) is None


def test_sharers_share_the_busy_time_of_a_device() -> None:
    busyness = Busyness()
    busyness.see(node(0.8), {("a", 1): attempt("a", "here:0"), ("b", 1): attempt("b", "here:0")})
    assert busyness.taken(("a", 1)) == busyness.taken(("b", 1)) == 0.4


def test_nothing_is_said_of_devices_that_do_not_tell_and_of_attempts_that_do_not_run() -> None:
    busyness = Busyness()
    busyness.see(node(None), {("a", 1): attempt("a", "here:0")})
    busyness.see(node(1.0), {("a", 1): attempt("a", "here:0", started_at=None)})
    assert busyness.taken(("a", 1)) is None
